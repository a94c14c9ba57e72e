/**
 * Quotations of a sandbox in a reply. The lines around and inside one carry a random word that is
 * new in each reply, so that nothing in a sandbox can write such a line.
 */

import { randomBytes } from "node:crypto";
import { oneLine } from "../common/untrusted-text.ts";
import { cleanTerminal } from "./text.ts";

/** A piece of a quotation: what the sandbox said, or a line of this server among it. */
export type QuotedPart = string | { readonly note: string };

/** A part of a reply that quotes a sandbox. */
export interface Section {
  readonly name: string;
  readonly parts: readonly QuotedPart[];
}

/** 40 random bits as eight characters: a guess is right once in 10^12 replies. */
const MARK_BYTES = 5;
const MARK_CHARACTERS = "abcdefghijklmnopqrstuvwxyz234567";

/** The sections between lines of this server: one before each, one after the last. */
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

/** A word that is nowhere in what is quoted; the second one is already as good as certain. */
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
 * Begins a line of this server among the bytes of an output, up to the next line feed. The byte
 * never occurs in UTF-8, and `withoutNotes` takes it out of what a sandbox says.
 */
const NOTE_BYTE = 0xff;
/** Reads as the other one does: as a character that is no UTF-8. */
const OTHER_INVALID_BYTE = 0xfe;
const NEWLINE = 0x0a;

/** A line of this server, for a place among the bytes of a sandbox. */
export function toNote(text: string): Buffer {
  return Buffer.concat([Buffer.of(NOTE_BYTE), Buffer.from(`${oneLine(text)}\n`)]);
}

/** Bytes of a sandbox that hold no line of this server; their positions and text are the same. */
export function withoutNotes<T extends Uint8Array>(bytes: T): T | Buffer {
  if (!bytes.includes(NOTE_BYTE)) return bytes;
  return Buffer.from(bytes.map((byte) => (byte === NOTE_BYTE ? OTHER_INVALID_BYTE : byte)));
}

/** Bytes of a sandbox with lines of this server among them, as parts that can be shown. */
export function toParts(bytes: Buffer): QuotedPart[] {
  const parts: QuotedPart[] = [];
  for (let start = 0; start < bytes.length;) {
    const note = bytes.indexOf(NOTE_BYTE, start);
    const dataEnd = note === -1 ? bytes.length : note;
    if (dataEnd > start) parts.push(cleanTerminal(bytes.toString("utf8", start, dataEnd)));
    if (note === -1) break;
    const newline = bytes.indexOf(NEWLINE, note);
    const noteEnd = newline === -1 ? bytes.length : newline;
    parts.push({ note: bytes.toString("utf8", note + 1, noteEnd) });
    start = noteEnd + 1;
  }
  return parts;
}
