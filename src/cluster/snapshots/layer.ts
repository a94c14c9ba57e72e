/**
 * The changes that a daemon tells, as a layer. They are hostile input: root inside decides
 * what they are. Every entry is checked, and written anew; nothing of the daemon's own is among them.
 */

import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import {
  TAR_END,
  tarPadding,
  toTarHeader,
  type TarHeader,
  type TarKind,
} from "../../common/tar-header.ts";
import { createByteReader, type ByteReader } from "../../images/byte-reader.ts";
import { readTar, type TarEntry } from "../../images/tar.ts";
import { DAEMON_PATHS } from "../../wire/pod-listener.ts";

const MAX_PATH_BYTES = 4_096;
const MAX_NAME_BYTES = 255;
const MAX_ID = 0xff_ff_ff_fe;
const CHUNK_BYTES = 256 * 1024;
const WHITEOUT = ".wh.";

export interface LayerBounds {
  /** Of the archive, before it is compressed. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Of the paths of all directories: they are kept until the end. */
  readonly maxPathBytes: number;
  /** Where volumes are mounted in a sandbox of the layer: only directories lead there. */
  readonly mountPaths?: readonly string[];
}

interface Folders {
  readonly paths: Set<string>;
  bytes: number;
}

const reportSchema = z.object({ skipped: z.int().min(0), torn: z.int().min(0) });

/** Without the report that ends a stream the changes are not complete. @throws SandboxError */
export function readReport(text: string | undefined): z.infer<typeof reportSchema> {
  try {
    return reportSchema.parse(parseJson(Buffer.from(text ?? "", "utf8")));
  } catch (error) {
    throw new SandboxError("unavailable", "the daemon of the sandbox did not tell all changes", {
      cause: error,
    });
  }
}

/** Gets the pieces of the archive in order; the next one comes when it resolves. */
export type LayerSink = (chunk: Buffer) => Promise<void>;

/**
 * Reads the changes to their end and writes them to the sink; returns the number of entries.
 * @throws SandboxError failed_precondition for what no daemon of ours says, resource_exhausted beyond
 * a bound
 */
export async function writeLayer(
  source: AsyncIterable<Buffer>,
  { maxBytes, maxEntries, maxPathBytes, mountPaths = [] }: LayerBounds,
  sink: LayerSink,
): Promise<number> {
  const reader = createByteReader(source);
  const folders: Folders = { paths: new Set(), bytes: 0 };
  let entries = 0;
  let bytes = 0;
  const requireSpace = (more: number) => {
    if (bytes + more > maxBytes) tooLarge(`more than ${maxBytes} bytes, holes of files included`);
  };
  const write = async (chunk: Buffer) => {
    requireSpace(chunk.length);
    bytes += chunk.length;
    if (chunk.length > 0) await sink(chunk);
  };
  await readTar(reader, async (entry) => {
    entries += 1;
    if (entries > maxEntries) tooLarge(`more than ${maxEntries} files`);
    // Before anything of it is read.
    requireSpace(entry.dataBytes);
    const checked = checkEntry(entry, folders);
    requireMountable(checked, mountPaths);
    if (folders.bytes > maxPathBytes) tooLarge("in too many directories");
    await copyEntry(reader, checked, write);
  });
  await write(TAR_END);
  return entries;
}

/** The header, and what the reader holds for it. */
export async function copyEntry(
  reader: ByteReader,
  header: TarHeader,
  write: LayerSink,
): Promise<void> {
  await write(toTarHeader(header));
  for (let left = header.size; left > 0;) {
    const chunk = await reader.some(Math.min(left, CHUNK_BYTES));
    await write(chunk);
    left -= chunk.length;
  }
  await write(tarPadding(header.size));
}

function checkEntry(entry: TarEntry, folders: Folders): TarHeader {
  const { target, mode, uid, gid, mtimeSeconds, dataBytes: size } = entry;
  const path = checkPath(entry.path.replace(/\/$/, ""));
  if (entry.sparse !== undefined) invalid("a file has a list of holes");
  const subject = requireKnownWhiteout(path, entry);
  const kind = kindOf(entry);
  if (kind === "hardlink") checkPath(target);
  requireFolders(kind === "hardlink" ? target : path, folders);
  requireFolders(path, folders);
  if (kind !== "directory" && folders.paths.has(subject)) invalid("a directory that ends again");
  if (kind === "directory" && !folders.paths.has(path)) {
    folders.paths.add(path);
    folders.bytes += path.length;
  }
  return {
    kind,
    path,
    target: checkTarget(target),
    mode: mode & 0o7777,
    uid: checkId(uid),
    gid: checkId(gid),
    size,
    mtimeSeconds,
  };
}

/**
 * What holds an entry is a directory of this layer. So no link of the image or of the layer leads an
 * entry elsewhere, such as to the files of the daemon by `/var/run`: a runtime that finds a link where
 * a layer has a directory replaces the link.
 */
function requireFolders(path: string, { paths }: Folders): void {
  // What holds the last one was proved when it came.
  const at = path.lastIndexOf("/");
  if (at !== -1 && !paths.has(path.slice(0, at))) invalid("a path without its directories");
}

/** A runtime follows links: one on the way to a volume could lead it over the files of the daemon. */
function requireMountable({ kind, path }: TarHeader, mountPaths: readonly string[]): void {
  if (kind === "directory") return;
  if (mountPaths.some((mount) => mount === `/${path}` || mount.startsWith(`/${path}/`))) {
    invalid("a link or a file on the way to a volume");
  }
}

function kindOf({ kind }: TarEntry): TarKind {
  if (kind === "device") invalid("a device");
  return kind;
}

/** A relative path without detours, to something that a layer may change. */
function checkPath(path: string): string {
  const names = path.split("/");
  const isPlain = names.every(
    (name) => name !== "" && name !== "." && name !== ".." && name.length <= MAX_NAME_BYTES,
  );
  if (!isPlain || path.length > MAX_PATH_BYTES || path.includes("\0")) invalid("a path");
  if (DAEMON_PATHS.some((kept) => path === kept || path.startsWith(`${kept}/`)))
    invalid("a kept path");
  return path;
}

/**
 * A whiteout ends one name; what holds kept paths neither ends nor becomes anything else. Returns the
 * path that the entry is about.
 */
function requireKnownWhiteout(path: string, { kind, dataBytes }: TarEntry): string {
  const names = path.split("/");
  const name = names.pop() ?? "";
  if (names.some((part) => part.startsWith(WHITEOUT))) invalid("a whiteout");
  const isWhiteout = name.startsWith(WHITEOUT);
  const ended = isWhiteout ? name.slice(WHITEOUT.length) : name;
  // `.wh..wh.` begins the special names of layers, which no daemon of ours writes.
  const isSpecial = ["", ".", ".."].includes(ended) || ended.startsWith(WHITEOUT);
  if (isWhiteout && (isSpecial || kind !== "file" || dataBytes > 0)) invalid("a whiteout");
  const subject = [...names, ended].join("/");
  const holdsKept = DAEMON_PATHS.some((kept) => kept === subject || kept.startsWith(`${subject}/`));
  if (holdsKept && (isWhiteout || kind !== "directory")) invalid("a kept path");
  return subject;
}

function checkTarget(target: string): string {
  if (target.length > MAX_PATH_BYTES || target.includes("\0")) invalid("the target of a link");
  return target;
}

function checkId(id: number): number {
  if (!Number.isInteger(id) || id < 0 || id > MAX_ID) invalid("an owner");
  return id;
}

function invalid(subject: string): never {
  throw new SandboxError("failed_precondition", `the changes of the sandbox hold ${subject}`);
}

function tooLarge(reason: string): never {
  throw new SandboxError("resource_exhausted", `the changes of the sandbox are ${reason}`);
}
