/** The archive form of POSIX (pax): heads of 512 bytes, before long or odd names a record of them. */

import { tarPadding } from "../../common/tar-header.ts";

const BLOCK = 512;
const TYPES = { file: "0", link: "2", folder: "5", record: "x" } as const;
/** What the fields of a plain head hold. */
const MAX_NAME_BYTES = 100;
const MAX_BYTES = 0o77777777777;

export interface TarEntry {
  /** Relative, with `/`. */
  readonly path: string;
  readonly kind: "file" | "folder" | "link";
  readonly mode: number;
  readonly bytes: number;
  /** Of a link. */
  readonly target: string;
}

/** All that stands before the content of an entry. */
export function tarHead(entry: TarEntry): Buffer {
  const records = [
    ...longText("path", entry.path),
    ...longText("linkpath", entry.target),
    ...(entry.bytes > MAX_BYTES ? [["size", String(entry.bytes)] as const] : []),
  ];
  const head = plainHead({ ...entry, type: TYPES[entry.kind] });
  if (records.length === 0) return head;
  const text = Buffer.concat(records.map(([name, value]) => record(name, value)));
  const before = { path: "pax", mode: 0o644, bytes: text.length, target: "", type: TYPES.record };
  return Buffer.concat([plainHead(before), text, tarPadding(text.length), head]);
}

function longText(name: string, value: string): (readonly [string, string])[] {
  const isPlain = Buffer.byteLength(value) <= MAX_NAME_BYTES && /^[ -~]*$/.test(value);
  return isPlain ? [] : [[name, value]];
}

/** `length name=value`, where the length counts itself. */
function record(name: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${name}=${value}\n`);
  let length = rest;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return Buffer.from(`${length} ${name}=${value}\n`);
}

function plainHead(entry: Omit<TarEntry, "kind"> & { readonly type: string }): Buffer {
  const head = Buffer.alloc(BLOCK);
  head.write(Buffer.from(entry.path).subarray(0, MAX_NAME_BYTES).toString("latin1"), 0, "latin1");
  head.write(octal(entry.mode, 8), 100);
  head.write(octal(0, 8), 108);
  head.write(octal(0, 8), 116);
  head.write(octal(Math.min(entry.bytes, MAX_BYTES), 12), 124);
  head.write(octal(0, 12), 136);
  head.write(" ".repeat(8), 148);
  head.write(entry.type, 156);
  const target = Buffer.from(entry.target).subarray(0, MAX_NAME_BYTES);
  head.write(target.toString("latin1"), 157, "latin1");
  head.write("ustar\u000000", 257, "latin1");
  const sum = head.reduce((total, byte) => total + byte, 0);
  head.write(`${octal(sum, 7)}\0 `, 148, "latin1");
  return head;
}

function octal(value: number, width: number): string {
  return value.toString(8).padStart(width - 1, "0");
}
