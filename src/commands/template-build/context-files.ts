/** The files of a COPY step: found below a folder, hashed by what counts, packed as a tar. */

import { createHash } from "node:crypto";
import { createReadStream, type Stats } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join, posix, relative, resolve, sep } from "node:path";
import { Readable } from "node:stream";
import { isCode, SandboxError } from "../../common/errors.ts";
import { TAR_END, tarPadding, toTarHeader, type TarHeader } from "../../common/tar-header.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { findSources } from "./find-sources.ts";
import { NOTHING_IGNORED, readIgnoreFile, type IgnoreRules } from "./ignore-file.ts";

/** More is no source of a template; the service takes no larger archive either. */
const MAX_FILES = 200_000;

export interface FileSet {
  readonly hash: string;
  /** Of the archive. */
  readonly bytes: number;
  open(): Readable;
}

/** @throws SandboxError for a file that is there and cannot be used: it may keep secrets out. */
export async function readIgnore(folder: string): Promise<IgnoreRules> {
  const path = join(folder, ".dockerignore");
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT")) return NOTHING_IGNORED;
    throw new SandboxError("failed_precondition", `${path} cannot be read`, { cause: error });
  }
  return readIgnoreFile(text);
}

/**
 * @throws SandboxError invalid_argument for a source outside the folder, also by a link, and for a
 * name that is not UTF-8; not_found for a source that matches nothing.
 */
export async function collectFiles(
  folder: string,
  args: readonly string[],
  rules: IgnoreRules,
): Promise<FileSet> {
  const [given = "", target = ""] = args;
  // A source counts from the folder, also one that begins with a slash.
  const source = posix.normalize(given.replace(/^\/+/, "") || ".");
  if (source === ".." || source.startsWith("../")) {
    throw new SandboxError("invalid_argument", `${given} is outside of the folder`);
  }
  const found = new Map<string, ContextFile>();
  const state = { folder, rules, found };
  for await (const name of findSources(folder, source)) await add(state, name);
  if (found.size === 0) {
    throw new SandboxError("not_found", `${given} matches no file that is not ignored`);
  }
  const files = [...found.values()].toSorted((left, right) => (left.path < right.path ? -1 : 1));
  const hash = createHash("sha256").update(JSON.stringify(["COPY", source, target]));
  // Not the times, as in docker: a new clone has the same files.
  for (const { path, kind, mode, size, target: link } of files) {
    hash.update(JSON.stringify([path, kind, mode, size, link]));
    if (kind !== "file") continue;
    for await (const chunk of createReadStream(join(folder, path))) hash.update(chunk);
  }
  const bytes = files.reduce((sum, file) => sum + entryBytes(file), TAR_END.length);
  return { hash: hash.digest("hex"), bytes, open: () => Readable.from(pack(folder, files)) };
}

/** Its names are texts. */
type ContextFile = Pick<TarHeader, "kind" | "path" | "target" | "mode" | "size" | "mtimeSeconds">;

interface Walk {
  readonly folder: string;
  readonly rules: IgnoreRules;
  readonly found: Map<string, ContextFile>;
}

async function add(walk: Walk, name: string): Promise<void> {
  const { folder, rules, found } = walk;
  const full = resolve(folder, name);
  const path = relative(folder, full).split(sep).join("/");
  if (path === ".." || path.startsWith("../") || found.size > MAX_FILES) {
    throw new SandboxError("invalid_argument", `${name}: too many files, or one outside`);
  }
  const isIgnored = path !== "" && rules.isIgnored(path);
  const stats = await lstatNamed(full);
  const keep = (file: Pick<ContextFile, "kind" | "size" | "target">) => {
    const entry = {
      path,
      mode: stats.mode & 0o7777,
      mtimeSeconds: Math.floor(stats.mtimeMs / 1000),
      ...file,
    };
    if (path !== "" && !isIgnored) found.set(path, entry);
  };
  if (stats.isDirectory()) {
    keep({ kind: "directory", size: 0 });
    if (isIgnored && !rules.hasExceptionBelow(path)) return;
    for (const child of await readdir(full)) await add(walk, join(full, child));
  } else if (stats.isSymbolicLink()) {
    keep({ kind: "symlink", size: 0, target: await readlink(full) });
  } else if (stats.isFile()) {
    keep({ kind: "file", size: stats.size });
  }
}

/** A name that is not UTF-8 was read as another one, which is not there. */
async function lstatNamed(path: string): Promise<Stats> {
  try {
    return await lstat(path);
  } catch (error) {
    if (!isCode(error, "ENOENT") || !path.includes("\uFFFD")) throw error;
    throw new SandboxError("invalid_argument", `${quoteUntrusted(path)}: the name is not UTF-8`, {
      cause: error,
    });
  }
}

function tarHead({ path, target = "", ...fields }: ContextFile): Buffer {
  const names = { path: toBytes(path), target: toBytes(target) };
  return toTarHeader({ ...fields, ...names, uid: 0, gid: 0 });
}

/** As a header takes names: each byte is one character. */
function toBytes(name: string): string {
  return Buffer.from(name).toString("latin1");
}

function entryBytes(file: ContextFile): number {
  return tarHead(file).length + file.size + tarPadding(file.size).length;
}

async function* pack(folder: string, files: readonly ContextFile[]): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield tarHead(file);
    if (file.kind !== "file" || file.size === 0) continue;
    let bytes = 0;
    // The archive has the size that was announced, whatever happens to the file meanwhile.
    for await (const chunk of createReadStream(join(folder, file.path), { end: file.size - 1 })) {
      bytes += chunk.length;
      yield chunk;
    }
    if (bytes !== file.size) {
      throw new SandboxError("failed_precondition", `${file.path} changed while it was read`);
    }
    yield tarPadding(bytes);
  }
  yield TAR_END;
}
