/** The changes of a tree since its baseline, as a tar archive with the whiteouts of an OCI layer. */

import { constants, lstatSync, readlinkSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { TAR_END, tarPadding, toTarHeader, type TarHeader } from "../../common/tar-header.ts";
import { isUnchanged, kindOf, type BaselineReader, type KnownEntry } from "./baseline.ts";
import { createWalk, join, toBytes, type TreeEntry, type TreePlace } from "./tree.ts";

const WHITEOUT = ".wh.";
const CHUNK_BYTES = 256 * 1024;
/** Smaller files are read as a whole, and again if they change meanwhile. */
const MAX_WHOLE_BYTES = 1024 * 1024;
const MAX_READS = 4;
/** Names of files with several; of more, each name becomes a file of its own. */
const MAX_LINKED = 100_000;
const NO_KNOWN: ReadonlyMap<string, KnownEntry> = new Map();
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** What a layer cannot contain. */
export interface ChangesReport {
  /** Entries that are in no layer: sockets, devices, names of whiteouts, unreadable files. */
  skipped: number;
  /** Files that changed while they were read. */
  torn: number;
}

interface Directory {
  readonly path: string;
  readonly stats: Stats;
  /** Whether the image had it. */
  readonly isKnown: boolean;
  isWritten: boolean;
  /** Below it, still to be read; once it is read itself, the first one last. */
  readonly left: Directory[];
}

/** A file of several names of which the layer has at least one. */
interface LinkedFile {
  /** The name that its data came with. */
  readonly path: string;
  readonly ctimeMs: number;
  readonly count: number;
  readonly names: Set<string>;
}

interface State {
  readonly place: TreePlace;
  readonly baseline: BaselineReader;
  readonly report: ChangesReport;
  /** By device and inode. */
  readonly linked: Map<string, LinkedFile>;
  /** From the root to what is being read. */
  readonly stack: Directory[];
}

/** Reads the tree while it is consumed; `report` is complete at its end. */
export async function* streamChanges(
  place: TreePlace,
  baseline: BaselineReader,
  report: ChangesReport,
): AsyncGenerator<Buffer> {
  const state: State = { place, baseline, report, linked: new Map(), stack: [] };
  yield* walkTree(state, readDirectory);
  const hasOtherNames = [...state.linked.values()].some(({ count, names }) => names.size < count);
  if (hasOtherNames) yield* walkTree(state, readOtherNames);
  yield TAR_END;
}

type DirectoryReader = (
  state: State,
  directory: Directory,
  entries: readonly TreeEntry[],
) => AsyncGenerator<Buffer>;

async function* walkTree(state: State, read: DirectoryReader): AsyncGenerator<Buffer> {
  const { place, stack } = state;
  const tree = createWalk(place);
  const stats = lstatSync(toBytes(place, ""));
  let next: Directory | undefined = { path: "", stats, isKnown: true, isWritten: true, left: [] };
  while (next !== undefined) {
    stack.push(next);
    const entries = await tree.list(next.path);
    // One that was removed meanwhile has no changes.
    if (entries !== undefined) yield* read(state, next, entries);
    next.left.reverse();
    next = nextDirectory(stack);
  }
}

function nextDirectory(stack: Directory[]): Directory | undefined {
  for (let last = stack.at(-1); last !== undefined; last = stack.at(-1)) {
    const next = last.left.pop();
    if (next !== undefined) return next;
    stack.pop();
  }
  return undefined;
}

async function* readDirectory(
  state: State,
  directory: Directory,
  entries: readonly TreeEntry[],
): AsyncGenerator<Buffer> {
  const { baseline, report } = state;
  const known = directory.isKnown ? baseline.find(directory.path) : NO_KNOWN;
  const present = new Set(entries.map(({ name }) => name));
  for (const name of known.keys()) {
    // A layer cannot end a name that would itself be a whiteout; no layer has made it either.
    if (present.has(name) || name.startsWith(WHITEOUT)) continue;
    yield* writeParents(state.stack);
    yield toTarHeader(whiteoutOf(join(directory.path, name)));
  }
  for (const { name, stats } of entries) {
    const before = known.get(name);
    if (name.startsWith(WHITEOUT)) {
      // A layer would take it for the end of another file.
      report.skipped += 1;
      continue;
    }
    const path = join(directory.path, name);
    const isChanged = !isUnchanged(before, stats);
    if (stats.isDirectory()) {
      const isKnown = before?.kind === "directory";
      const below = { path, stats, isKnown, isWritten: false, left: [] };
      directory.left.push(below);
      if (isChanged) yield* writeChangedDirectory(state, below);
    } else if (isChanged) {
      yield* writeEntry(state, path, stats);
    }
  }
}

/**
 * Names of files of the layer that are as they were in the image: a directory that is moved gives the
 * files below it new names, and does not change their other ones.
 */
async function* readOtherNames(
  { linked, report, stack }: State,
  directory: Directory,
  entries: readonly TreeEntry[],
): AsyncGenerator<Buffer> {
  for (const { name, stats } of entries) {
    // The first walk counted it as skipped, with all that is below it.
    if (name.startsWith(WHITEOUT)) continue;
    const path = join(directory.path, name);
    if (stats.isDirectory()) {
      directory.left.push({ path, stats, isKnown: true, isWritten: false, left: [] });
      continue;
    }
    const file = stats.nlink > 1 ? linked.get(identityOf(stats)) : undefined;
    if (file === undefined || file.names.has(path)) continue;
    if (file.ctimeMs !== stats.ctimeMs) {
      report.torn += 1;
      continue;
    }
    yield* writeParents(stack);
    yield toTarHeader({ ...headerOf(path, stats, "hardlink"), target: file.path });
  }
}

/** A directory whose own facts changed, whatever is in it. */
function* writeChangedDirectory({ stack }: State, directory: Directory): Generator<Buffer> {
  yield* writeParents(stack);
  directory.isWritten = true;
  yield toTarHeader(headerOf(directory.path, directory.stats, "directory"));
}

/** A layer has each directory before what is in it, so that owner, mode and time stay. */
function* writeParents(stack: readonly Directory[]): Generator<Buffer> {
  for (const directory of stack) {
    if (directory.isWritten) continue;
    directory.isWritten = true;
    yield toTarHeader(headerOf(directory.path, directory.stats, "directory"));
  }
}

async function* writeEntry(state: State, path: string, stats: Stats): AsyncGenerator<Buffer> {
  const { place, report, linked, stack } = state;
  const kind = kindOf(stats);
  if (kind === "socket" || kind === "device" || kind === "directory") {
    report.skipped += 1;
    return;
  }
  yield* writeParents(stack);
  const known = stats.nlink > 1 ? linked.get(identityOf(stats)) : undefined;
  if (known !== undefined) {
    known.names.add(path);
    yield toTarHeader({ ...headerOf(path, stats, "hardlink"), target: known.path });
    return;
  }
  if (kind === "file") {
    const wasThere = yield* writeFile(state, path);
    if (!wasThere) return;
  } else {
    const link = kind === "symlink" ? readLink(toBytes(place, path)) : "";
    if (link === undefined) return;
    yield toTarHeader({ ...headerOf(path, stats, kind), target: link });
  }
  if (stats.nlink > 1 && linked.size < MAX_LINKED) {
    const { ctimeMs, nlink: count } = stats;
    linked.set(identityOf(stats), { path, ctimeMs, count, names: new Set([path]) });
  }
}

function identityOf({ dev, ino }: Stats): string {
  return `${dev} ${ino}`;
}

function readLink(path: Buffer): string | undefined {
  try {
    return readlinkSync(path, { encoding: "buffer" }).toString("latin1");
  } catch {
    return undefined;
  }
}

async function* writeFile(state: State, path: string): AsyncGenerator<Buffer, boolean> {
  const { place, report } = state;
  const file = await open(toBytes(place, path), OPEN_FLAGS).catch((error: unknown) => {
    // One that was removed meanwhile is no part of the snapshot.
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) {
      report.skipped += 1;
    }
    return undefined;
  });
  if (file === undefined) return false;
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return false;
    if (stats.size <= MAX_WHOLE_BYTES) yield* writeSmallFile(file, path, report);
    else yield* writeLargeFile(file, { path, stats }, report);
    return true;
  } finally {
    await file.close();
  }
}

async function* writeSmallFile(
  file: FileHandle,
  path: string,
  report: ChangesReport,
): AsyncGenerator<Buffer> {
  for (let read = 1; ; read += 1) {
    const stats = await file.stat();
    const data = Buffer.alloc(Math.min(stats.size, MAX_WHOLE_BYTES));
    const { bytesRead } = await file.read(data, 0, data.length, 0);
    const after = await file.stat();
    const isWhole = after.ctimeMs === stats.ctimeMs && bytesRead === stats.size;
    if (!isWhole && read < MAX_READS) continue;
    if (!isWhole) report.torn += 1;
    yield toTarHeader({ ...headerOf(path, stats, "file"), size: bytesRead });
    yield data.subarray(0, bytesRead);
    yield tarPadding(bytesRead);
    return;
  }
}

/** The size precedes the data: what is missing then is zeros, and what comes later is left out. */
async function* writeLargeFile(
  file: FileHandle,
  { path, stats }: { readonly path: string; readonly stats: Stats },
  report: ChangesReport,
): AsyncGenerator<Buffer> {
  const { size } = stats;
  yield toTarHeader({ ...headerOf(path, stats, "file"), size });
  for (let at = 0; at < size;) {
    const data = Buffer.alloc(Math.min(CHUNK_BYTES, size - at));
    const { bytesRead } = await file.read(data, 0, data.length, at);
    const length = bytesRead === 0 ? data.length : bytesRead;
    yield data.subarray(0, length);
    at += length;
  }
  yield tarPadding(size);
  if ((await file.stat()).ctimeMs !== stats.ctimeMs) report.torn += 1;
}

function headerOf(path: string, stats: Stats, kind: TarHeader["kind"]): TarHeader {
  const { mode, uid, gid, mtimeMs } = stats;
  return { kind, path, mode, uid, gid, size: 0, mtimeSeconds: mtimeMs / 1_000 };
}

function whiteoutOf(path: string): TarHeader {
  const at = path.lastIndexOf("/") + 1;
  const marked = `${path.slice(0, at)}${WHITEOUT}${path.slice(at)}`;
  return { kind: "file", path: marked, mode: 0, uid: 0, gid: 0, size: 0, mtimeSeconds: 0 };
}
