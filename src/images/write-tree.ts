/** Writes a tree from memory to disk, as a list of steps for `src/perl/write-tree.pl`. */

import { open, mkdir } from "node:fs/promises";
import { storedId } from "../common/privilege.ts";
import { perlCommand } from "../engine/host/perl-program.ts";
import { runProgram } from "../engine/host/run-program.ts";
import { storedAttribute } from "./capabilities.ts";
import type { DirectoryNode, Metadata, TreeNode } from "./tree.ts";
import { MAX_PATH_BYTES, treeFault } from "./tree.ts";

const TIMEOUT_MS = 20 * 60_000;
const BATCH_CHARACTERS = 256 * 1024;
const MODE_BITS = 0o7777;
/** 32 bits are what some file systems have for a time. */
const MAX_SECONDS = 2 ** 32 - 1;
/** By the words of `write-tree.pl`. */
const REFUSALS: Readonly<Record<string, string>> = {
  attributes: "has more attributes than a file can have here",
  names: "is one name too many of a file",
};

export interface WriteTask {
  readonly root: DirectoryNode;
  /** Made by this call. */
  readonly directory: string;
  /** Where the contents are; those of the tree are moved out of it. */
  readonly contents: string;
  /** A file for the steps. */
  readonly steps: string;
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
}

/**
 * @throws SandboxError failed_precondition for what no file of this disk can have, unavailable when
 * the disk is full or a step fails, canceled
 */
export async function writeTree(task: WriteTask): Promise<void> {
  const { root, directory, contents, steps, perlDirectory, signal } = task;
  await mkdir(directory, { mode: 0o700 });
  const file = await open(steps, "wx", 0o600);
  try {
    let batch = "";
    for (const step of stepsOf(root)) {
      batch += step;
      if (batch.length < BATCH_CHARACTERS) continue;
      await file.appendFile(batch, "latin1");
      batch = "";
      signal.throwIfAborted();
    }
    await file.appendFile(batch, "latin1");
  } finally {
    await file.close();
  }
  const words = [process.arch, steps, contents, directory];
  const refused = await runProgram(perlCommand(perlDirectory, "write-tree", words), {
    timeoutMs: TIMEOUT_MS,
    signal,
  });
  const [word = "", path = ""] = refused.trim().split(" ");
  if (word !== "") treeFault(Buffer.from(path, "hex").toString("latin1"), REFUSALS[word] ?? word);
}

interface Open {
  readonly path: string;
  readonly node: DirectoryNode;
  readonly rest: Iterator<[string, TreeNode]>;
}

/** Parents before what is in them, and once more after it. */
function* stepsOf(root: DirectoryNode): Generator<string> {
  const firstNames = new Map<number, string>();
  const folders: Open[] = [{ path: ".", node: root, rest: root.children.entries() }];
  for (let folder = folders.at(-1); folder !== undefined; folder = folders.at(-1)) {
    const next = folder.rest.next();
    if (next.done === true) {
      yield toStep(["t", folder.path, ""], folder.node.meta);
      folders.pop();
      continue;
    }
    const [name, node] = next.value;
    const path = `${folder.path}/${name}`;
    if (path.length > MAX_PATH_BYTES) treeFault(path, "is too long");
    if (node.kind === "directory") {
      yield toStep(["d", path, ""], withoutAttributes(node.meta));
      folders.push({ path, node, rest: node.children.entries() });
    } else yield leafStep(path, node, firstNames);
  }
}

function leafStep(
  path: string,
  node: Exclude<TreeNode, DirectoryNode>,
  firstNames: Map<number, string>,
): string {
  const bare = withoutAttributes(node.meta);
  if (node.kind === "symlink") return toStep(["l", path, node.target], bare);
  const first = firstNames.get(node.content);
  if (first !== undefined) return toStep(["h", path, first], bare);
  firstNames.set(node.content, path);
  return toStep(["f", path, String(node.content)], node.meta);
}

/** A file or a link has any number of names: a megabyte of attributes with each would fill the disk. */
function withoutAttributes(meta: Metadata): Metadata {
  return { ...meta, attributes: [] };
}

/** Paths, names and words have no NUL: the tree refuses it. */
function toStep(words: readonly string[], meta: Metadata): string {
  const facts = [meta.mode & MODE_BITS, storedId(meta.uid), storedId(meta.gid)].join(":");
  const seconds = Math.floor(Math.min(Math.max(meta.mtimeSeconds, 0), MAX_SECONDS));
  const list = meta.attributes.map(
    ([name, value]) =>
      `${Buffer.from(name, "latin1").toString("hex")}=${storedAttribute(name, value).toString("hex")}`,
  );
  return `${[...words, facts, seconds, list.join(",")].join("\0")}\0`;
}
