/**
 * Reads an archive in any dialect of tar: the seventh edition's, ustar, that of GNU with its long
 * names and sparse files, and pax with attributes and sparse files. It judges no path: the tree does.
 */

import type { ByteReader } from "./byte-reader.ts";
import {
  checkMap,
  readLeadingMap,
  readOldMap,
  readPaxSparse,
  type SparseMap,
  type PaxSparse,
} from "./sparse.ts";
import {
  BLOCK_BYTES,
  hasValidChecksum,
  numberField,
  parsePax,
  paxNumber,
  tarFault,
  textField,
  type PaxRecords,
} from "./tar-fields.ts";

export type EntryKind = "file" | "directory" | "symlink" | "hardlink" | "device" | "fifo";

export interface TarEntry {
  readonly kind: EntryKind;
  /** As the archive has it, each byte as one character. */
  readonly path: string;
  readonly target: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtimeSeconds: number;
  /** By name, the value in bytes; only names that an archive calls attributes. */
  readonly attributes: readonly (readonly [name: string, value: Buffer])[];
  /** Of the file with its holes; 0 for what is none. */
  readonly size: number;
  /** Where the data of a file belongs; undefined for one without holes. */
  readonly sparse: SparseMap | undefined;
  /** How many bytes of the archive are its data. */
  readonly dataBytes: number;
}

const KINDS: Readonly<Record<string, EntryKind>> = {
  "\0": "file",
  "0": "file",
  "1": "hardlink",
  "2": "symlink",
  "3": "device",
  "4": "device",
  "5": "directory",
  "6": "fifo",
  "7": "file",
  S: "file",
};

/** Labels, parts of other volumes, lists of directories and notes for the whole archive. */
const IGNORED = "gVNMDIAE";
/** Long names of GNU, and records of pax. */
const MAX_NAME_BYTES = 64 * 1024;
const MAX_RECORD_BYTES = 1024 * 1024;
/** Headers before one entry, of which programs write two or three. */
const MAX_ANNOUNCED_BYTES = 2 * MAX_RECORD_BYTES;
const XATTR_KEYS = ["SCHILY.xattr.", "LIBARCHIVE.xattr."] as const;
const USTAR = "ustar";

/** What headers before an entry say of it. */
interface Announced {
  name?: string;
  target?: string;
  readonly records: [key: string, value: string][];
  /** Of all headers before the entry, which are held until it comes. */
  bytes: number;
}

/**
 * Calls `onEntry` with each entry, which reads exactly `dataBytes` of the reader.
 * @throws SandboxError failed_precondition for what is no archive, or is cut off
 */
export async function readTar(
  reader: ByteReader,
  onEntry: (entry: TarEntry) => Promise<void>,
): Promise<void> {
  let announced: Announced = { records: [], bytes: 0 };
  for (;;) {
    const header = await reader.take(BLOCK_BYTES);
    if (header === undefined) return;
    if (isZero(header)) return requireZeros(reader);
    if (!hasValidChecksum(header)) tarFault("a header has a false checksum");
    const type = String.fromCharCode(header[156] ?? 0);
    const size = numberField(header, 124, 12);
    if (size < 0) tarFault("a size is negative");
    if (await readAnnouncement({ reader, type, size, announced })) continue;
    await readEntry({ reader, header, type, size, announced }, onEntry);
    announced = { records: [], bytes: 0 };
  }
}

function isZero(block: Buffer): boolean {
  return block.every((byte) => byte === 0);
}

/** A second archive after the end of the first would be read by some programs and not by others. */
async function requireZeros(reader: ByteReader): Promise<void> {
  for (;;) {
    const block = await reader.take(BLOCK_BYTES);
    if (block === undefined) return;
    if (!isZero(block)) tarFault("something follows the end of the archive");
  }
}

interface Header {
  readonly reader: ByteReader;
  readonly type: string;
  readonly size: number;
  readonly announced: Announced;
}

/** Whether the header only says something of the next one. */
async function readAnnouncement({ reader, type, size, announced }: Header): Promise<boolean> {
  if ("LKxX".includes(type)) {
    announced.bytes += BLOCK_BYTES + size;
    if (announced.bytes > MAX_ANNOUNCED_BYTES) tarFault("too much is said of one entry");
  }
  if (type === "L" || type === "K") {
    if (size > MAX_NAME_BYTES) tarFault("a name is too long");
    // A cut text would hold all that the header has behind the name.
    const text = textField(await readPadded(reader, size), 0, size);
    if (type === "L") announced.name = text;
    else announced.target = text;
    return true;
  }
  if (type === "x" || type === "X") {
    if (size > MAX_RECORD_BYTES) tarFault("the records of pax are too long");
    parsePax(await readPadded(reader, size), announced.records);
    return true;
  }
  if (!IGNORED.includes(type)) return false;
  await reader.skip(padded(size));
  return true;
}

async function readPadded(reader: ByteReader, size: number): Promise<Buffer> {
  const data = await reader.require(padded(size));
  return data.subarray(0, size);
}

function padded(size: number): number {
  return Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
}

async function readEntry(
  { reader, header, type, size, announced }: Header & { readonly header: Buffer },
  onEntry: (entry: TarEntry) => Promise<void>,
): Promise<void> {
  const { records } = announced;
  const stated = new Map(records);
  const of = (key: string) => stated.get(key);
  const named = announced.name ?? headerName(header);
  const sparse = readPaxSparse(records, stated);
  const path = sparse?.name ?? of("path") ?? named;
  const kind = kindOf(type, path);
  const statedSize = of("size");
  const archived = statedSize === undefined ? size : paxNumber(statedSize);
  // Only a file has data, whatever the header of another entry says; old programs wrote sizes there.
  const stored = kind === "file" ? archived : skippedBytes(kind, archived);
  const content = await readContent({ reader, header, type, stored, sparse });
  const taken = reader.position + content.dataBytes;
  await onEntry({
    kind,
    path,
    target: of("linkpath") ?? announced.target ?? textField(header, 157, 100),
    mode: numberField(header, 100, 8),
    uid: idOf(of("uid"), numberField(header, 108, 8)),
    gid: idOf(of("gid"), numberField(header, 116, 8)),
    mtimeSeconds: timeOf(of("mtime"), numberField(header, 136, 12)),
    attributes: attributesOf(records),
    ...content,
    ...(kind !== "file" && { size: 0, sparse: undefined }),
  });
  if (reader.position !== taken) throw new RangeError("the data of an entry was not read");
  await reader.skip(padded(stored) - stored);
}

function skippedBytes(kind: EntryKind, size: number): number {
  if (size !== 0 && kind !== "directory") tarFault("a link or a device has data");
  return 0;
}

function kindOf(type: string, path: string): EntryKind {
  const kind = KINDS[type];
  if (kind === undefined) tarFault("an entry is of an unknown type");
  // The seventh edition had no type for a directory.
  return kind === "file" && type !== "7" && path.endsWith("/") ? "directory" : kind;
}

interface Content {
  readonly size: number;
  readonly sparse: SparseMap | undefined;
  readonly dataBytes: number;
}

async function readContent(entry: {
  readonly reader: ByteReader;
  readonly header: Buffer;
  readonly type: string;
  readonly stored: number;
  readonly sparse: PaxSparse | undefined;
}): Promise<Content> {
  const { reader, header, type, stored, sparse } = entry;
  if (type === "S") {
    const map = await readOldMap(header, reader);
    checkMap(map, stored);
    return { size: map.size, sparse: map, dataBytes: stored };
  }
  if (sparse === undefined) return { size: stored, sparse: undefined, dataBytes: stored };
  if (sparse.map !== "before the data") {
    checkMap(sparse.map, stored);
    return { size: sparse.size, sparse: sparse.map, dataBytes: stored };
  }
  const limit = { size: sparse.size, dataBytes: stored };
  const { map, takenBytes } = await readLeadingMap(reader, limit);
  checkMap(map, stored - takenBytes);
  return { size: sparse.size, sparse: map, dataBytes: stored - takenBytes };
}

/** GNU has times where ustar has the beginning of a path. */
function headerName(header: Buffer): string {
  const name = textField(header, 0, 100);
  const isUstar = textField(header, 257, 6) === USTAR;
  const prefix = isUstar ? textField(header, 345, 155) : "";
  return prefix === "" ? name : `${prefix}/${name}`;
}

function idOf(text: string | undefined, field: number): number {
  return text === undefined ? field : paxNumber(text);
}

function timeOf(text: string | undefined, field: number): number {
  if (text === undefined) return field;
  const seconds = Number(text);
  if (!/^-?[0-9]{1,15}(\.[0-9]{0,32})?$/.test(text)) tarFault("a time of pax is not valid");
  return seconds;
}

function attributesOf(records: PaxRecords): [string, Buffer][] {
  const found = new Map<string, Buffer>();
  for (const [key, value] of records) {
    const form = XATTR_KEYS.find((prefix) => key.startsWith(prefix));
    if (form === undefined) continue;
    const name = key.slice(form.length);
    if (form === "SCHILY.xattr.") found.set(name, Buffer.from(value, "latin1"));
    else if (!found.has(name)) found.set(name, Buffer.from(value, "base64"));
  }
  return [...found];
}
