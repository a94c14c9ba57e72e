/** The bytes of a file as text: its encoding, known or guessed, and its line ends. */

import { isUtf8 } from "node:buffer";
import { incompleteTail } from "../../common/characters.ts";

/** So many bytes are looked at to tell UTF-16, which has zeros in every other place, from others. */
const SNIFFED_BYTES = 4_096;
/** Of a larger part its beginning tells the encoding: each character that is no ASCII is counted. */
const MAX_GUESSED_BYTES = 1_000_000;
/** A share of zeros in one half of the places, and in the other, of text in UTF-16. */
const MIN_ZEROS = 0.4;
const MAX_STRAY_ZEROS = 0.05;
/** Fewer bytes prove nothing. */
const MIN_SNIFFED_BYTES = 16;
/** The share of ASCII in a text with some other bytes among it, such as a log. */
const MIN_PLAIN = 0.7;
/** Control characters that no text has; the one of terminal codes is looked at apart. */
const CONTROL_PATTERN = /(?![\t\n\f\r])\p{Cc}/u;
const ESCAPE = String.fromCodePoint(0x1b);

export interface Part {
  readonly bytes: Buffer;
  /** Of its first byte in the file. */
  readonly offset: number;
  /** Whether more of the file follows. */
  readonly isCut: boolean;
}

/** What a part of a file is written in. */
export type Encoding =
  | { readonly kind: "utf-8" }
  /** Valid characters of more than one byte outnumber the bytes that are none. */
  | { readonly kind: "broken utf-8"; readonly invalid: number }
  | { readonly kind: "utf-16le" | "utf-16be" | "windows-1252" };

/** What is shown as text because it was asked for as such. */
export type ShownEncoding = Encoding | { readonly kind: "binary" };

/** The encoding of a part; undefined for bytes that are no text. */
export function guessEncoding(whole: Part): Encoding | undefined {
  const part = beginningOf(whole);
  const { bytes, offset } = part;
  if (offset === 0 && bytes[0] === 0xff && bytes[1] === 0xfe) return { kind: "utf-16le" };
  if (offset === 0 && bytes[0] === 0xfe && bytes[1] === 0xff) return { kind: "utf-16be" };
  if (bytes.includes(0)) return guessByZeros(part);
  const inner = withoutPartialEnds(part);
  if (isUtf8(inner)) return { kind: "utf-8" };
  const text = inner.toString("utf8");
  const invalid = countOf(text, /\ufffd/g);
  const valid = countOf(text, /[^\p{ASCII}\ufffd]/gu);
  if (valid >= invalid) return { kind: "broken utf-8", invalid };
  const head = new TextDecoder("windows-1252").decode(inner.subarray(0, SNIFFED_BYTES));
  if (!hasControls(head)) return { kind: "windows-1252" };
  const isMostlyPlain = countOf(head, /[\t\n\r -~]/g) >= head.length * MIN_PLAIN;
  return isMostlyPlain ? { kind: "broken utf-8", invalid } : undefined;
}

function beginningOf(part: Part): Part {
  if (part.bytes.length <= MAX_GUESSED_BYTES) return part;
  return { ...part, bytes: part.bytes.subarray(0, MAX_GUESSED_BYTES), isCut: true };
}

function guessByZeros({ bytes, offset }: Part): Encoding | undefined {
  const zeros: [number, number] = [0, 0];
  const length = Math.min(bytes.length, SNIFFED_BYTES);
  if (length < MIN_SNIFFED_BYTES) return undefined;
  for (let index = 0; index < length; index += 1) {
    if (bytes[index] === 0) zeros[(offset + index) % 2 === 0 ? 0 : 1] += 1;
  }
  const [even, odd] = zeros.map((count) => count / (length / 2));
  if (even === undefined || odd === undefined) return undefined;
  const encoding = utf16Of(even, odd);
  if (encoding === undefined) return undefined;
  const sample = decodePart({ bytes: bytes.subarray(0, length), offset, isCut: true }, encoding);
  return hasControls(sample) ? undefined : encoding;
}

function hasControls(text: string): boolean {
  return CONTROL_PATTERN.test(text.replaceAll(ESCAPE, ""));
}

/** By the share of zeros in the first and in the second byte of each pair. */
function utf16Of(even: number, odd: number): Encoding | undefined {
  if (odd >= MIN_ZEROS && even <= MAX_STRAY_ZEROS) return { kind: "utf-16le" };
  if (even >= MIN_ZEROS && odd <= MAX_STRAY_ZEROS) return { kind: "utf-16be" };
  return undefined;
}

/** Without the halves of characters that a cut left at either end. */
function withoutPartialEnds({ bytes, offset, isCut }: Part): Buffer {
  const first = bytes.subarray(0, 3).findIndex((byte) => (byte & 0xc0) !== 0x80);
  const start = offset > 0 && first > 0 ? first : 0;
  return bytes.subarray(start, bytes.length - (isCut ? incompleteTail(bytes) : 0));
}

function countOf(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

/** The encoding as a fact for a reader; undefined for UTF-8, which every reader expects. */
export function encodingFact(encoding: ShownEncoding): string | undefined {
  switch (encoding.kind) {
    case "utf-8":
      return undefined;
    case "binary":
      return "binary: what is no UTF-8 is shown as \ufffd";
    case "broken utf-8":
      return `not valid UTF-8: ${encoding.invalid} invalid sequences shown as \ufffd`;
    case "utf-16le":
    case "utf-16be":
    case "windows-1252":
      return `not UTF-8: shown as ${encoding.kind}, a guess`;
    default:
      return encoding satisfies never;
  }
}

/** The encoding of a file that is not UTF-8, in words. */
export function encodingGuess(encoding: Encoding): string {
  return encoding.kind === "utf-8" || encoding.kind === "broken utf-8"
    ? "some bytes in it are invalid"
    : `it looks like ${encoding.kind}`;
}

/** The text of a part; whole characters only where its encoding tells their borders. */
export function decodePart({ bytes, offset }: Part, { kind }: ShownEncoding): string {
  if (kind === "utf-8" || kind === "broken utf-8" || kind === "binary") {
    return bytes.toString("utf8");
  }
  const start = kind === "windows-1252" ? 0 : offset % 2;
  return new TextDecoder(kind, { ignoreBOM: true }).decode(bytes.subarray(start));
}

export interface Lines {
  /** With line feeds alone where all line ends were of one other kind. */
  readonly text: string;
  /** Undefined for line feeds, which every reader expects. */
  readonly fact: string | undefined;
}

/** A text with the line ends that a reader expects; other ones are named. */
export function readLines(text: string): Lines {
  if (!text.includes("\r")) return { text, fact: undefined };
  const windows = countOf(text, /\r\n/g);
  const plain = countOf(text, /\n/g) - windows;
  if (windows === 0 && plain === 0) {
    return { text: text.replaceAll("\r", "\n"), fact: "line ends: CR" };
  }
  if (windows === 0) return { text, fact: undefined };
  if (plain === 0) return { text: text.replaceAll("\r\n", "\n"), fact: "line ends: CRLF" };
  return { text, fact: String.raw`line ends: mixed, ${windows} CRLF and ${plain} LF` };
}
