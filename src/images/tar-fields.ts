/** The fields of tar headers: numbers, texts, checksums and records of pax. Names are bytes. */

import { SandboxError } from "../common/errors.ts";

export const BLOCK_BYTES = 512;

/** Names are bytes, of which each becomes one character of a text. */
const NAMES = "latin1";

/** Of one record of pax: `LENGTH KEY=VALUE\n`, the length in decimal and counting all of it. */
const MAX_LENGTH_DIGITS = 10;
const MAX_RECORDS = 65_536;
const CHECKSUM_AT = 148;
const CHECKSUM_END = 156;
const SPACE = 0x20;
const SIGN_BIT = 0x80;
const MINUS = 0xff;

/** @throws SandboxError failed_precondition */
export function tarFault(reason: string): never {
  const text = `the image, or a layer of it, is not valid: ${reason}`;
  throw new SandboxError("failed_precondition", text);
}

/** A text that ends at its first NUL. */
export function textField(block: Buffer, start: number, size: number): string {
  const field = block.subarray(start, start + size);
  const end = field.indexOf(0);
  return field.toString(NAMES, 0, end === -1 ? field.length : end);
}

/** Octal, or binary where its first bit is set, as GNU writes what has no place. */
export function numberField(block: Buffer, start: number, size: number): number {
  const field = block.subarray(start, start + size);
  const first = field[0] ?? 0;
  if ((first & SIGN_BIT) !== 0) return binaryNumber(field, first);
  const text = field.toString(NAMES).replaceAll(/[\0 ]+$|^[\0 ]+/g, "");
  // What follows a NUL inside is not part of it.
  const digits = text.split(/[\0 ]/, 1)[0] ?? "";
  if (digits === "") return 0;
  if (!/^[0-7]+$/.test(digits)) tarFault("a number is not octal");
  return Number.parseInt(digits, 8);
}

function binaryNumber(field: Buffer, first: number): number {
  const bits = field.length * 8;
  const value = BigInt(`0x${field.toString("hex")}`);
  // The mark of a positive number, or all ones before a negative one.
  const number = first === MINUS ? value - (1n << BigInt(bits)) : value - (1n << BigInt(bits - 1));
  if (number > BigInt(Number.MAX_SAFE_INTEGER) || number < BigInt(Number.MIN_SAFE_INTEGER)) {
    tarFault("a number is too large");
  }
  return Number(number);
}

/** Old programs summed signed bytes. */
export function hasValidChecksum(block: Buffer): boolean {
  let unsigned = 0;
  let signed = 0;
  for (const [at, byte] of block.entries()) {
    const counted = at >= CHECKSUM_AT && at < CHECKSUM_END ? SPACE : byte;
    unsigned += counted;
    signed += counted >= SIGN_BIT ? counted - 256 : counted;
  }
  const stated = numberField(block, CHECKSUM_AT, CHECKSUM_END - CHECKSUM_AT);
  return stated === unsigned || stated === signed;
}

export type PaxRecords = readonly (readonly [key: string, value: string])[];

/** Adds the records of a header of pax in order; a key may come more than once, the last one counts. */
export function parsePax(data: Buffer, records: [key: string, value: string][]): void {
  for (let at = 0; at < data.length;) {
    const blank = data.indexOf(SPACE, at);
    const digits = blank === -1 ? "" : data.toString(NAMES, at, blank);
    const isLength = /^[1-9][0-9]*$/.test(digits) && digits.length <= MAX_LENGTH_DIGITS;
    const end = at + Number(digits);
    if (!isLength || end > data.length || end <= blank + 1)
      tarFault("a record of pax has no length");
    const text = data.toString(NAMES, blank + 1, end);
    const equals = text.indexOf("=");
    if (!text.endsWith("\n") || equals < 1) tarFault("a record of pax is cut off");
    records.push([text.slice(0, equals), text.slice(equals + 1, -1)]);
    if (records.length > MAX_RECORDS) tarFault("too many records of pax");
    at = end;
  }
}

/** A decimal number of pax, at least 0. */
export function paxNumber(text: string): number {
  const number = Number(text);
  if (!/^[0-9]{1,16}$/.test(text) || !Number.isSafeInteger(number)) {
    tarFault("a number of pax is not valid");
  }
  return number;
}
