/** The files of a COPY step: found below a folder, hashed by what counts, packed as a tar. */

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join, posix, relative, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import { isCode, SandboxError } from "../../common/errors.ts";
import { TAR_END, tarPadding } from "../../common/tar-header.ts";
import { findSources } from "./find-sources.ts";
import { readIgnoreFile, type IsIgnored } from "./ignore-file.ts";
import { tarHead, type TarEntry } from "./tar.ts";

/** More is no source of a template; the service takes no larger archive either. */
const MAX_FILES = 200_000;

export interface FileSet {
  readonly hash: string;
  /** Of the archive. */
  readonly bytes: number;
  open(): Readable;
}

/** @throws SandboxError for a file that is there and cannot be used: it may keep secrets out. */
export async function readIgnore(folder: string): Promise<IsIgnored> {
  const path = join(folder, ".dockerignore");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT")) return () => false;
    throw new SandboxError("failed_precondition", `${path} cannot be read`, { cause: error });
  }
  return readIgnoreFile(text);
}

/**
 * @throws SandboxError invalid_argument for a source outside the folder, also by a link, not_found for one that
 * matches nothing.
 */
export async function collectFiles(
  folder: string,
  args: readonly string[],
  isIgnored: IsIgnored,
): Promise<FileSet> {
  const [given = "", target = ""] = args;
  // A source counts from the folder, also one that begins with a slash.
  const source = posix.normalize(given.replace(/^\/+/, "") || ".");
  if (source === ".." || source.startsWith("../")) {
    throw new SandboxError("invalid_argument", `${given} is outside of the folder`);
  }
  const found = new Map<string, TarEntry>();
  const state = { folder, isIgnored, found };
  for await (const name of findSources(folder, source)) await add(state, name);
  if (found.size === 0) {
    throw new SandboxError("not_found", `${given} matches no file that is not ignored`);
  }
  const files = [...found.values()].toSorted((left, right) => (left.path < right.path ? -1 : 1));
  const hash = createHash("sha256").update(JSON.stringify(["COPY", source, target]));
  for (const { path, kind, mode, bytes, target: link } of files) {
    hash.update(JSON.stringify([path, kind, mode, bytes, link]));
    if (kind !== "file") continue;
    for await (const chunk of createReadStream(join(folder, path))) hash.update(chunk);
  }
  const bytes = files.reduce((sum, file) => sum + entryBytes(file), TAR_END.length);
  return { hash: hash.digest("hex"), bytes, open: () => Readable.from(pack(folder, files)) };
}

interface Walk {
  readonly folder: string;
  readonly isIgnored: IsIgnored;
  readonly found: Map<string, TarEntry>;
}

async function add(walk: Walk, name: string): Promise<void> {
  const { folder, isIgnored, found } = walk;
  const full = resolve(folder, name);
  const path = relative(folder, full).split(sep).join("/");
  if (path === ".." || path.startsWith("../") || found.size > MAX_FILES) {
    throw new SandboxError("invalid_argument", `${name}: too many files, or one outside`);
  }
  const stats = await lstat(full);
  const mode = stats.mode & 0o7777;
  // What is below an ignored folder can be an exception.
  const isKept = path !== "" && !isIgnored(path);
  if (stats.isDirectory()) {
    if (isKept) found.set(path, { path, kind: "folder", mode, bytes: 0, target: "" });
    for (const child of await readdir(full)) await add(walk, join(full, child));
  } else if (isKept && stats.isSymbolicLink()) {
    found.set(path, { path, kind: "link", mode, bytes: 0, target: await readlink(full) });
  } else if (isKept && stats.isFile()) {
    found.set(path, { path, kind: "file", mode, bytes: stats.size, target: "" });
  }
}

function entryBytes(file: TarEntry): number {
  return tarHead(file).length + file.bytes + tarPadding(file.bytes).length;
}

async function* pack(folder: string, files: readonly TarEntry[]): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield tarHead(file);
    if (file.kind !== "file" || file.bytes === 0) continue;
    let bytes = 0;
    // The archive has the size that was announced, whatever happens to the file meanwhile.
    for await (const chunk of createReadStream(join(folder, file.path), { end: file.bytes - 1 })) {
      bytes += chunk.length;
      yield chunk;
    }
    if (bytes !== file.bytes) {
      throw new SandboxError("failed_precondition", `${file.path} changed while it was read`);
    }
    yield tarPadding(bytes);
  }
  yield TAR_END;
}
