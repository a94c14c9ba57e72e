/** Writes headers of tar entries in the form of pax. Names are bytes, of which each is one character. */

const TAR_BLOCK_BYTES = 512;
/** What ends an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * TAR_BLOCK_BYTES);

export type TarKind = "file" | "directory" | "symlink" | "hardlink" | "fifo";

export interface TarHeader {
  readonly kind: TarKind;
  /** Relative, without a slash at its end. */
  readonly path: string;
  /** Of a link. */
  readonly target?: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Bytes of data that follow, padded to whole blocks. */
  readonly size: number;
  readonly mtimeSeconds: number;
}

const TYPES = { file: "0", hardlink: "1", symlink: "2", directory: "5", fifo: "6" } as const;
const MAX_NAME = 100;
const MAX_ID = 0o7777777;
const MAX_SIZE = 0o77777777777;
const TIME_DIGITS = 6;
const CHECKSUM_AT = 148;

/** The header, after one with records of pax where a field has no place in it. */
export function toTarHeader(header: TarHeader): Buffer {
  const records = paxRecords(header);
  const plain = plainHeader(header, TYPES[header.kind]);
  if (records.length === 0) return plain;
  const announced = { path: "././@PaxHeader", mode: 0o644, uid: 0, gid: 0, mtimeSeconds: 0 };
  const size = records.length;
  return Buffer.concat([
    plainHeader({ ...announced, kind: "file", size }, "x"),
    records,
    tarPadding(size),
    plain,
  ]);
}

/** What fills the last block of so many bytes. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((TAR_BLOCK_BYTES - (size % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES);
}

function paxRecords({ path, target = "", uid, gid, size, mtimeSeconds }: TarHeader): Buffer {
  const records: Buffer[] = [];
  const add = (key: string, value: string) => records.push(paxRecord(key, value));
  if (path.length + 1 > MAX_NAME) add("path", path);
  if (target.length > MAX_NAME) add("linkpath", target);
  if (uid > MAX_ID) add("uid", String(uid));
  if (gid > MAX_ID) add("gid", String(gid));
  if (size > MAX_SIZE) add("size", String(size));
  if (!Number.isInteger(mtimeSeconds) || mtimeSeconds < 0 || mtimeSeconds > MAX_SIZE) {
    add("mtime", mtimeSeconds.toFixed(TIME_DIGITS));
  }
  return Buffer.concat(records);
}

/** `LENGTH KEY=VALUE\n`, where the length counts itself. */
function paxRecord(key: string, value: string): Buffer {
  const body = Buffer.from(` ${key}=${value}\n`, "latin1");
  let length = body.length + 1;
  while (String(length).length + body.length !== length) length += 1;
  return Buffer.concat([Buffer.from(String(length)), body]);
}

function plainHeader(header: TarHeader, type: string): Buffer {
  const { kind, path, target = "", mode, uid, gid, size, mtimeSeconds } = header;
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  block.write(`${path}${kind === "directory" ? "/" : ""}`.slice(0, MAX_NAME), 0, "latin1");
  octal(block, 100, { digits: 7, value: mode & 0o7777 });
  octal(block, 108, { digits: 7, value: Math.min(uid, MAX_ID) });
  octal(block, 116, { digits: 7, value: Math.min(gid, MAX_ID) });
  octal(block, 124, { digits: 11, value: Math.min(size, MAX_SIZE) });
  const time = Math.min(Math.max(Math.floor(mtimeSeconds), 0), MAX_SIZE);
  octal(block, 136, { digits: 11, value: time });
  block.write(" ".repeat(8), CHECKSUM_AT, "latin1");
  block.write(type, 156, "latin1");
  block.write(target.slice(0, MAX_NAME), 157, "latin1");
  block.write("ustar\u000000", 257, "latin1");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, CHECKSUM_AT, "latin1");
  return block;
}

function octal(
  block: Buffer,
  at: number,
  { digits, value }: { readonly digits: number; readonly value: number },
): void {
  block.write(value.toString(8).padStart(digits, "0"), at, "latin1");
}
