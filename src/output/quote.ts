/**
 * Quotes untrusted text in a reply. The lines around and inside a quotation carry a random word,
 * new in each reply, which a program in a sandbox cannot guess.
 */

import { randomBytes } from "node:crypto";
import { oneLine } from "../common/untrusted-text.ts";
import { cleanOutput, formatBytes } from "./text.ts";

/** A piece of a quotation: untrusted text, or a note of this server. */
export type QuotedPart = string | { readonly note: string };

/** A part of a reply that quotes a sandbox. */
export interface Section {
  readonly name: string;
  readonly parts: readonly QuotedPart[];
}

/** 40 random bits as eight characters: a guess is right once in 10^12 replies. */
const MARK_BYTES = 5;
const MARK_CHARACTERS = "abcdefghijklmnopqrstuvwxyz234567";

/** The sections, each after a line that names it, and a line after the last one. */
export function quoteSections(sections: readonly Section[]): string {
  const mark = freshMark(sections);
  const quoted = sections.map(({ name, parts }) => {
    const lines = parts.map((part) => withNewline(toText(part, mark))).join("");
    return `--- ${name} ${mark}\n${lines}`;
  });
  return `${quoted.join("")}--- end ${mark}`;
}

function toText(part: QuotedPart, mark: string): string {
  return typeof part === "string" ? part : `--- ${oneLine(part.note)} ${mark}`;
}

function withNewline(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

/** A word that the quoted text does not contain. */
function freshMark(sections: readonly Section[]): string {
  const isTaken = (word: string) =>
    sections.some(({ parts }) =>
      parts.some((part) => (typeof part === "string" ? part : part.note).includes(word)),
    );
  let mark = randomMark();
  while (isTaken(mark)) mark = randomMark();
  return mark;
}

function randomMark(): string {
  let bits = BigInt(`0x${randomBytes(MARK_BYTES).toString("hex")}`);
  let word = "";
  for (let index = 0; index < (MARK_BYTES * 8) / 5; index += 1) {
    word += MARK_CHARACTERS[Number(bits & 31n)] ?? "";
    bits >>= 5n;
  }
  return word;
}

/**
 * Begins a note of this server among the bytes of an output; it ends at the next line feed. The
 * byte never occurs in UTF-8, and `withoutNotes` replaces it in untrusted bytes.
 */
const NOTE_BYTE = 0xff;
/** Decodes as `NOTE_BYTE` does: to the replacement character. */
const OTHER_INVALID_BYTE = 0xfe;
const NEWLINE = 0x0a;

/** A note of this server as bytes of an output. */
export function toNote(text: string): Buffer {
  return Buffer.concat([Buffer.of(NOTE_BYTE), Buffer.from(`${oneLine(text)}\n`)]);
}

/** The rest of a note whose beginning was dropped or is before a cursor: as a note, of the same length. */
export function restOfNote<T extends Uint8Array>(bytes: T): T | Buffer {
  const isWhole = bytes[0] === NOTE_BYTE || bytes.length < 2;
  return isWhole ? bytes : Buffer.concat([Buffer.of(NOTE_BYTE), bytes.subarray(1)]);
}

/** Where bytes end that have no part of the note in which they would end. */
export function endBeforeNote(bytes: Buffer, end: number): number {
  return noteAround(bytes, end)?.start ?? end;
}

/** Where bytes begin that have no part of the note in which they would begin. */
export function startAfterNote(bytes: Buffer, start: number): number {
  return noteAround(bytes, start)?.end ?? start;
}

function noteAround(bytes: Buffer, place: number): { start: number; end: number } | undefined {
  const start = bytes.subarray(0, place).lastIndexOf(NOTE_BYTE);
  if (start === -1) return undefined;
  const end = bytes.indexOf(NEWLINE, start) + 1;
  return place < end ? { start, end } : undefined;
}

/** Untrusted bytes in which nothing is a note; positions and decoded text are the same. */
export function withoutNotes<T extends Uint8Array>(bytes: T): T | Buffer {
  if (!bytes.includes(NOTE_BYTE)) return bytes;
  return Buffer.from(bytes.map((byte) => (byte === NOTE_BYTE ? OTHER_INVALID_BYTE : byte)));
}

/** The untrusted text and the notes of an output. */
export function toParts(bytes: Buffer): QuotedPart[] {
  const parts: QuotedPart[] = [];
  const hidden = { count: 0, bytes: 0 };
  for (let start = 0; start < bytes.length;) {
    const note = bytes.indexOf(NOTE_BYTE, start);
    const dataEnd = note === -1 ? bytes.length : note;
    if (dataEnd > start) {
      const { text, overwritten } = cleanOutput(bytes.toString("utf8", start, dataEnd));
      parts.push(text);
      hidden.count += overwritten.count;
      hidden.bytes += overwritten.bytes;
    }
    if (note === -1) break;
    const newline = bytes.indexOf(NEWLINE, note);
    const noteEnd = newline === -1 ? bytes.length : newline;
    parts.push({ note: bytes.toString("utf8", note + 1, noteEnd) });
    start = noteEnd + 1;
  }
  if (hidden.count > 0) {
    const size = formatBytes(hidden.bytes);
    parts.push({ note: `[… ${hidden.count} texts that a \\r overwrote are not shown: ${size} …]` });
  }
  return parts;
}
