/** The files of a COPY step: found below a folder, hashed by what counts, packed as a tar. */

import { createHash } from "node:crypto";
import { createReadStream, type Stats } from "node:fs";
import { lstat, readdir, readFile, readlink, realpath } from "node:fs/promises";
import { join, posix, relative, sep } from "node:path";
import { Readable } from "node:stream";
import { isCode, SandboxError } from "../../common/errors.ts";
import { TAR_END, tarPadding, toTarHeader, type TarHeader } from "../../common/tar-header.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { findSources } from "./find-sources.ts";
import { NOTHING_IGNORED, readIgnoreFile, type IgnoreRules } from "./ignore-file.ts";

/** More is no source of a template; the service takes no larger archive either. */
const MAX_FILES = 200_000;

/** What a step copies, of which no content was read yet. */
export interface FoundFiles {
  readonly isEmpty: boolean;
  /** Paths of the files that the source itself names. */
  readonly sources: readonly string[];
  /** Reads all of it, which may take minutes. */
  read(signal: AbortSignal): Promise<FileSet>;
}

export interface FileSet {
  readonly hash: string;
  /** Of the archive. */
  readonly bytes: number;
  open(): Readable;
}

/**
 * As in docker, a file that has the name of the Dockerfile comes before that of the folder.
 * @throws SandboxError for a file that is there and cannot be used: it may keep secrets out.
 */
export async function readIgnore(folder: string, dockerfile: string): Promise<IgnoreRules> {
  for (const path of [`${dockerfile}.dockerignore`, join(folder, ".dockerignore")]) {
    let text: string;
    try {
      text = await readFile(path, "utf8");
    } catch (error) {
      if (isCode(error, "ENOENT")) continue;
      throw new SandboxError("failed_precondition", `${path} cannot be read`, { cause: error });
    }
    return readIgnoreFile(text);
  }
  return NOTHING_IGNORED;
}

/**
 * Of a pattern that matches nothing an empty set: in docker such a source is left out.
 * @throws SandboxError invalid_argument for a source outside the folder, also by a link, and for a
 * name that is not UTF-8; not_found for another source that is not there.
 */
export async function findFiles(
  given: string,
  args: readonly string[],
  rules: IgnoreRules,
): Promise<FoundFiles> {
  const [named = "", target = ""] = args;
  const folder = await realpath(given);
  // A source counts from the folder, also one that begins with a slash.
  const source = posix.normalize(named.replace(/^\/+/, "") || ".");
  if (source === ".." || source.startsWith("../")) {
    throw new SandboxError("invalid_argument", `${named} is outside of the folder`);
  }
  const found = new Map<string, ContextFile>();
  const state = { folder, rules, found };
  const names = new Set<string>();
  for await (const name of findSources(folder, source)) {
    names.add(name);
    await add(state, rules.isIgnored(name) ? name : await followLink(folder, name), name);
  }
  const hasWildcards = /[*?[]/.test(source.replaceAll(/\\./gs, ""));
  if (found.size === 0 && !hasWildcards) {
    throw new SandboxError("not_found", `${named} matches no file that is not ignored`);
  }
  const files = [...found.values()].toSorted((left, right) => (left.path < right.path ? -1 : 1));
  const own = files.filter(({ kind, path }) => kind === "file" && names.has(path));
  return {
    isEmpty: files.length === 0,
    sources: own.map(({ from }) => join(folder, from)),
    read: async (signal) => readFiles({ folder, files, step: ["COPY", source, target] }, signal),
  };
}

interface Reading {
  readonly folder: string;
  readonly files: readonly ContextFile[];
  /** Its words, which are a part of what is hashed. */
  readonly step: readonly string[];
}

async function readFiles({ folder, files, step }: Reading, signal: AbortSignal): Promise<FileSet> {
  const hash = createHash("sha256").update(JSON.stringify(step));
  // Not the times, as in docker: a new clone has the same files.
  const digests = new Map<ContextFile, string>();
  for (const file of files) {
    const { path, kind, mode, size, target: link } = file;
    hash.update(JSON.stringify([path, kind, mode, size, link]));
    if (kind !== "file") continue;
    const content = createHash("sha256");
    for await (const chunk of readContent(folder, file, signal)) content.update(chunk);
    const digest = content.digest("hex");
    digests.set(file, digest);
    hash.update(digest);
  }
  const bytes = files.reduce((sum, file) => sum + entryBytes(file), TAR_END.length);
  return {
    hash: hash.digest("hex"),
    bytes,
    open: () => Readable.from(pack({ folder, files, digests })),
  };
}

/** Its names are texts. */
interface ContextFile extends Pick<
  TarHeader,
  "kind" | "path" | "target" | "mode" | "size" | "mtimeSeconds"
> {
  /** Where it is below the folder. */
  readonly from: string;
}

interface Walk {
  /** Without a link in it. */
  readonly folder: string;
  readonly rules: IgnoreRules;
  readonly found: Map<string, ContextFile>;
}

/** As in docker, a source that is a link itself is what the link leads to. */
async function followLink(folder: string, name: string): Promise<string> {
  const full = join(folder, name);
  if (!(await lstatNamed(full)).isSymbolicLink()) return name;
  let real: string;
  try {
    real = await realpath(full);
  } catch (error) {
    if (!isCode(error, "ENOENT")) throw error;
    throw new SandboxError("not_found", `${quoteUntrusted(name)} is a link to nothing`, {
      cause: error,
    });
  }
  const inside = relative(folder, real).split(sep).join("/");
  if (inside !== ".." && !inside.startsWith("../")) return inside;
  throw new SandboxError(
    "invalid_argument",
    `${quoteUntrusted(name)} leads out of the folder by a link`,
  );
}

/** What is at `from` below the folder becomes `path` of the archive. */
async function add(walk: Walk, from: string, path: string): Promise<void> {
  const { folder, rules, found } = walk;
  if (found.size > MAX_FILES) throw new SandboxError("invalid_argument", `${path}: too many files`);
  const full = join(folder, from);
  const isIgnored = from !== "" && rules.isIgnored(from);
  const stats = await lstatNamed(full);
  const keep = (file: Pick<ContextFile, "kind" | "size" | "target">) => {
    const entry = {
      from,
      path,
      mode: stats.mode & 0o7777,
      mtimeSeconds: Math.floor(stats.mtimeMs / 1000),
      ...file,
    };
    if (path !== "" && !isIgnored) found.set(path, entry);
  };
  if (stats.isDirectory()) {
    keep({ kind: "directory", size: 0 });
    if (isIgnored && !rules.hasExceptionBelow(from)) return;
    for (const child of await readdir(full)) {
      await add(walk, posix.join(from, child), posix.join(path, child));
    }
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

function tarHead({ path, target = "", from: _from, ...fields }: ContextFile): Buffer {
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

interface Archive {
  readonly folder: string;
  readonly files: readonly ContextFile[];
  /** Of the content by which the set has its hash. */
  readonly digests: ReadonlyMap<ContextFile, string>;
}

/** As much as it had when it was found: a log may grow, and the archive has the size that was announced. */
async function* readContent(
  folder: string,
  { from, size }: ContextFile,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const end = Math.max(0, size - 1);
  const chunks = createReadStream(join(folder, from), { end, ...(signal && { signal }) });
  // Also of one without content it shows whether it can be read.
  for await (const chunk of chunks) if (size > 0) yield chunk;
}

async function* pack({ folder, files, digests }: Archive): AsyncGenerator<Uint8Array> {
  for (const file of files) {
    yield tarHead(file);
    if (file.kind !== "file") continue;
    const content = createHash("sha256");
    for await (const chunk of readContent(folder, file)) {
      content.update(chunk);
      yield chunk;
    }
    // The service keeps it under its hash, and gives it to later builds that have the same files.
    if (content.digest("hex") !== digests.get(file)) {
      throw new SandboxError("failed_precondition", `${file.path} changed while it was read`);
    }
    yield tarPadding(file.size);
  }
  yield TAR_END;
}
