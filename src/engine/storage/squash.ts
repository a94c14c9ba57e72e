/**
 * Makes one layer of many: mounts them all as one tree, and the ones that stay as another whose
 * writable part is the new layer; then makes the second tree equal to the first. What the kernel
 * writes while that happens, marks of removed files included, is the layer.
 */

import { access, mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Layer } from "../engine.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { runProgram } from "../host/run-program.ts";
import { compareTrees, LISTING } from "./compare-trees.ts";
import { TREES } from "./layers.ts";

/** Layers have gigabytes. */
const TIMEOUT_MS = 10 * 60_000;

/** Everything that a file has: holes, attributes, owners by number. */
const ARCHIVE = "--xattrs --xattrs-include=* --acls --numeric-owner --file=-";
const SEND = `tar --directory=all --create --null --no-recursion --verbatim-files-from --files-from=disk/changed --sparse ${ARCHIVE}`;
const RECEIVE = `tar --directory=new --extract --same-permissions ${ARCHIVE}`;
/** A shell forgets how the first program of a pipe ended. */
const COPY = `set -f; { ${SEND} 2>disk/said && : >disk/sent; } | ${RECEIVE}`;
/** What is told of the first program's own words: its last line is the reason. */
const MAX_SAID_CHARACTERS = 400;

const CLEAR = "cd new && exec xargs -0 -r -a ../disk/gone rm -rf --";

export interface SquashSource {
  /** Bottom first. */
  readonly layers: readonly Layer[];
  /** How many of them stay as they are, from the bottom; the others become one. */
  readonly kept: number;
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
}

/** Fills the folder of a layer with what those above the kept ones change. */
export async function squashInto(draft: string, source: SquashSource): Promise<void> {
  await squashTree(draft, source, "root");
  const above = source.layers.slice(source.kept);
  if (above.some(({ usr }) => usr !== undefined)) await squashTree(draft, source, "usr");
}

async function squashTree(
  draft: string,
  source: SquashSource,
  tree: keyof typeof TREES,
): Promise<void> {
  const pathsOf = (layers: readonly Layer[]) => layers.flatMap((layer) => layer[tree] ?? []);
  const all = pathsOf(source.layers);
  const kept = pathsOf(source.layers.slice(0, source.kept)).length;
  const { perlDirectory, signal } = source;
  const views = { draft, tree, all, kept, perlDirectory, signal };
  await mkdir(join(draft, TREES[tree]), { mode: 0o755 });
  for (const name of ["work", "stage"]) await mkdir(join(draft, name), { mode: 0o700 });
  await runInside(views, ["find", "all", "-fprintf", "disk/all", LISTING]);
  await runInside(views, ["find", "new", "-fprintf", "disk/kept", LISTING]);
  await compareTrees({
    from: join(draft, "kept"),
    to: join(draft, "all"),
    hasInodes: await haveOneDisk(all),
    gone: join(draft, "gone"),
    changed: join(draft, "changed"),
  });
  await step("squash.listed");
  await runInside(views, ["sh", "-c", CLEAR]);
  await step("squash.cleared");
  await runInside(views, ["sh", "-c", COPY]);
  await requireSent(draft);
  await step("squash.copied");
  for (const name of ["work", "stage", "all", "kept", "gone", "changed", "said", "sent"]) {
    await removeTree(join(draft, name));
  }
}

async function requireSent(draft: string): Promise<void> {
  try {
    await access(join(draft, "sent"));
  } catch (error) {
    const said = await readFile(join(draft, "said"), "utf8").catch(() => "");
    const reason = quoteUntrusted(said.trim().slice(-MAX_SAID_CHARACTERS));
    throw new SandboxError("unavailable", `layers could not be read: ${reason}`, { cause: error });
  }
}

interface Views {
  readonly draft: string;
  readonly tree: keyof typeof TREES;
  /** Bottom first. */
  readonly all: readonly string[];
  readonly kept: number;
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
}

/** Runs a program in a folder that has the trees `all` and `new`, and the draft as `disk`. */
async function runInside(
  { draft, tree, all, kept, perlDirectory, signal }: Views,
  program: readonly [string, ...string[]],
): Promise<void> {
  const names = all.map((_path, index) => `l${index}`);
  // An overlay without a writable layer needs two trees.
  const below = (count: number) => [...names.slice(0, count).toReversed(), "empty"].join(":");
  const marks = isRootless() ? "userxattr" : "redirect_dir=on,metacopy=off,index=off";
  const upper = `upperdir=disk/${TREES[tree]},workdir=disk/work`;
  const steps: LauncherStep[] = [
    ["isolate"],
    ["mount", "tmpfs", join(draft, "stage"), "mode=0700,size=1m"],
    ["chdir", join(draft, "stage")],
    ...["disk", "empty", "all", "new", ...names].map((name) => ["mkdir", name] as const),
    ["bind", draft, "disk"],
    ...all.map((path, index) => ["clone", path, `l${index}`] as const),
    ["mount", "overlay", "all", `lowerdir=${below(all.length)},${marks}`],
    ["mount", "overlay", "new", `lowerdir=${below(kept)},${upper},${marks}`],
    ["exec", ...program],
  ];
  await runProgram(launcherCommand(perlDirectory, steps), { timeoutMs: TIMEOUT_MS, signal });
}

/** An overlay shows the inodes of files as they are only if its trees lie on one file system. */
async function haveOneDisk(trees: readonly string[]): Promise<boolean> {
  const disks = await Promise.all(trees.map(async (tree) => (await stat(tree)).dev));
  return new Set(disks).size === 1;
}
