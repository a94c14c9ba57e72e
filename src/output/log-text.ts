/** The text of a log as its resource shows it: the newest part, or the part from a position on. */

import { measureSpool } from "../spool/reader.ts";
import type { Piece } from "../spool/segment.ts";
import { StoredOutput, type OutputSource } from "./process-output.ts";
import {
  endBeforeNote,
  quoteSections,
  restOfNote,
  toParts,
  withoutNotes,
  type QuotedPart,
} from "./quote.ts";
import { cutAfter, cutBefore, formatBytes } from "./text.ts";

/** The most that one read of a resource returns. */
const READ_BYTES = 100_000;

/** Text that can be read by position. */
export interface LogText {
  /** Position behind the last byte. */
  readonly end: number;
  /** The kept bytes from a position on; they begin later where that position is in a gap. */
  read(from: number, maxBytes: number): Promise<{ readonly start: number; readonly bytes: Buffer }>;
}

/** Both streams of a process in order of arrival. */
export function textOf(source: OutputSource): LogText {
  return textOfPieces(source, ({ stream, bytes }, before) => {
    if (stream !== "note") return withoutNotes(bytes);
    // The note before may go on in it.
    return before?.stream === "note" ? bytes : restOfNote(bytes);
  });
}

type Show = (piece: Piece, before: Piece | undefined) => Uint8Array;

function textOfPieces(source: OutputSource, shown: Show): LogText {
  return {
    end: source.totalBytes,
    async read(from, maxBytes) {
      const kept: Uint8Array[] = [];
      let start = source.totalBytes;
      let before: Piece | undefined;
      for await (const piece of piecesFrom(source, from, maxBytes)) {
        // The next read begins behind the gap and says so.
        if (before !== undefined && piece.start !== before.start + before.bytes.length) break;
        if (before === undefined) start = piece.start;
        kept.push(shown(piece, before));
        before = piece;
      }
      return { start, bytes: Buffer.concat(kept).subarray(0, maxBytes) };
    },
  };
}

/** What is kept from a position on; a source gives what one of its places has at a time. */
async function* piecesFrom(source: OutputSource, from: number, maxBytes: number) {
  for (let [at, size] = [from, 0]; size < maxBytes && at < source.totalBytes;) {
    const pieces = await source.pieces(at, maxBytes - size);
    if (pieces.length === 0) return;
    for (const piece of pieces) {
      yield piece;
      at = piece.start + piece.bytes.length;
      size += piece.bytes.length;
    }
  }
}

/** The text of the log of a sandbox; its spool holds the notes in their final form. */
export async function textOfSpool(folder: string): Promise<LogText> {
  const output = new StoredOutput(folder, await measureSpool(folder), async () => folder);
  return textOfPieces(output, ({ bytes }) => bytes);
}

export function textOfBytes(bytes: Buffer): LogText {
  return {
    end: bytes.length,
    read: async (from, maxBytes) => {
      const start = Math.min(from, bytes.length);
      return { start, bytes: bytes.subarray(start, start + maxBytes) };
    },
  };
}

/** Texts as one, each behind the one before it. */
export function joinTexts(texts: readonly LogText[]): LogText {
  return {
    end: texts.reduce((sum, { end }) => sum + end, 0),
    async read(from, maxBytes) {
      const kept: Buffer[] = [];
      let [base, start, size] = [0, from, 0];
      for (const text of texts) {
        const wanted = Math.max(0, start + size - base);
        if (wanted < text.end && size < maxBytes) {
          const part = await text.read(wanted, maxBytes - size);
          // The next read begins behind the gap and says so.
          if (part.start > wanted && size > 0) break;
          if (size === 0) start = base + part.start;
          kept.push(part.bytes);
          size += part.bytes.length;
          if (start + size < base + text.end) break;
        }
        base += text.end;
      }
      return { start, bytes: Buffer.concat(kept) };
    },
  };
}

export interface LogView {
  /** Undefined for the newest part. */
  readonly from: number | undefined;
  readonly address: string;
  /** Stands behind the newest byte, and has no position. */
  readonly note?: string | undefined;
}

/** The newest part of a text, or the part from a position on. */
export async function formatLog(text: LogText, view: LogView): Promise<string> {
  const { from, address, note } = view;
  const parts =
    from === undefined ? await newestText(text, address) : await textOfRange(text, from, address);
  if (parts === undefined) return NOTHING_TEXT;
  return `${quoteSections([{ name: "log", parts: note ? [...parts, { note }] : parts }])}\n`;
}

const NOTHING_TEXT = "(no process has written anything to this server)\n";

/** The newest part of a text, from the beginning of a line. */
async function newestText(text: LogText, address: string): Promise<QuotedPart[] | undefined> {
  if (text.end === 0) return undefined;
  const { start, bytes } = await text.read(Math.max(0, text.end - READ_BYTES), READ_BYTES);
  const shown = start > 0 ? bytes.subarray(cutAfter(bytes, 1)) : bytes;
  const omitted = text.end - shown.length;
  const note = `[… ${formatBytes(omitted)} of older output omitted; ${address}/0 reads from the beginning]`;
  return [...(omitted > 0 ? [{ note }] : []), ...toParts(shown)];
}

/** The part from a position on, with marks for a gap and for the position of the next part. */
async function textOfRange(text: LogText, from: number, address: string): Promise<QuotedPart[]> {
  const wanted = Math.min(from, text.end);
  const { start, bytes } = await text.read(wanted, READ_BYTES);
  const isLast = start + bytes.length >= text.end;
  const end = isLast ? bytes.length : endBeforeNote(bytes, cutBefore(bytes, bytes.length - 1));
  // A single byte before a gap is no line, and is shown all the same.
  const shown = bytes.subarray(0, end || bytes.length);
  const next = start + shown.length;
  const lost = { note: `[… ${formatBytes(start - wanted)} no longer kept …]` };
  const more = { note: `[… ${formatBytes(text.end - next)} more: ${address}/${next}]` };
  const body = toParts(shown);
  return [...(start > wanted ? [lost] : []), ...body, ...(next < text.end ? [more] : [])];
}
