/** Which part of a process's output a reply shows, and from where the rest can be read. */

import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../client/process.ts";
import type { OutputBuffer, Piece } from "./output-buffer.ts";
import { cleanTerminal, cutAfter, cutBefore, incompleteTail } from "./text.ts";

/** The share of a cut text that is kept from its beginning; the end tells how it went. */
const HEAD_SHARE = 0.25;

/** One stream's text, whole or without its middle. */
export interface Excerpt {
  readonly stream: OutputStream;
  readonly head: string;
  /** Absent when nothing was left out. */
  readonly cut?: {
    readonly omittedBytes: number;
    /** From here on the left-out part can be read, as far as it is kept. */
    readonly cursor: number;
    readonly tail: string;
  };
}

/** Both streams of a finished or running process within one budget of bytes. */
export function excerptOutput(pieces: readonly Piece[], maxBytes: number): readonly Excerpt[] {
  const sizes = { stdout: sizeOf(pieces, "stdout"), stderr: sizeOf(pieces, "stderr") };
  const half = Math.floor(maxBytes / 2);
  // The smaller stream takes what it needs, the other one what is left.
  const stderrBudget = Math.min(sizes.stderr, Math.max(half, maxBytes - sizes.stdout));
  const budgets = { stdout: maxBytes - stderrBudget, stderr: stderrBudget };
  return (["stdout", "stderr"] as const)
    .filter((stream) => sizes[stream] > 0)
    .map((stream) => excerptStream(pieces, stream, budgets[stream]));
}

function sizeOf(pieces: readonly Piece[], stream: OutputStream): number {
  return ofStream(pieces, stream).reduce((sum, piece) => sum + piece.bytes.length, 0);
}

function ofStream(pieces: readonly Piece[], stream: OutputStream): readonly Piece[] {
  return pieces.filter((piece) => piece.stream === stream);
}

function excerptStream(pieces: readonly Piece[], stream: OutputStream, budget: number): Excerpt {
  const own = ofStream(pieces, stream);
  const bytes = Buffer.concat(own.map((piece) => piece.bytes));
  if (bytes.length <= budget) return { stream, head: toText(bytes) };
  const headEnd = cutBefore(bytes, Math.floor(budget * HEAD_SHARE));
  const tailStart = cutAfter(bytes, bytes.length - (budget - Math.floor(budget * HEAD_SHARE)));
  return {
    stream,
    head: toText(bytes.subarray(0, headEnd)),
    cut: {
      omittedBytes: tailStart - headEnd,
      cursor: positionOf(own, headEnd),
      tail: toText(bytes.subarray(tailStart)),
    },
  };
}

/** The position in the whole output of a place in the joined pieces. */
function positionOf(pieces: readonly Piece[], place: number): number {
  let before = 0;
  for (const piece of pieces) {
    if (place < before + piece.bytes.length) return piece.start + place - before;
    before += piece.bytes.length;
  }
  const last = pieces.at(-1);
  return last === undefined ? 0 : last.start + last.bytes.length;
}

function toText(bytes: Buffer): string {
  return cleanTerminal(bytes.toString("utf8"));
}

/** The next part of an output. */
export interface Page {
  readonly texts: readonly { readonly stream: OutputStream; readonly text: string }[];
  /** Where to go on. */
  readonly nextCursor: number;
  /** The oldest position that could still be read, when the wished one could not. */
  readonly resumedAt?: number;
}

export interface PageWish {
  readonly cursor: number;
  readonly maxBytes: number;
  readonly streams: readonly OutputStream[];
  /** Whether a character that is not complete yet can still be completed. */
  readonly isRunning: boolean;
}

/** At most `maxBytes` of the wished streams from a cursor on. */
export function pageOutput(buffer: OutputBuffer, wish: PageWish): Page {
  const { gap, totalBytes } = buffer;
  const isLost = wish.cursor >= gap.start && wish.cursor < gap.end;
  const from = Math.min(isLost ? gap.end : wish.cursor, totalBytes);
  const taken = takePieces(buffer.pieces(from), wish);
  const held = wish.isRunning ? heldBack(taken.pieces, totalBytes) : 0;
  const nextCursor = taken.stoppedAt ?? totalBytes - held;
  const texts = wish.streams
    .map((stream) => ({ stream, text: decode(taken.pieces, stream, nextCursor) }))
    .filter(({ text }) => text !== "");
  return { texts, nextCursor, ...(isLost && { resumedAt: from }) };
}

interface Taken {
  readonly pieces: readonly Piece[];
  /** Where the budget ended; undefined when everything was taken. */
  readonly stoppedAt?: number;
}

function takePieces(pieces: readonly Piece[], wish: PageWish): Taken {
  const taken: Piece[] = [];
  let size = 0;
  for (const [index, piece] of pieces.entries()) {
    const isAfterGap = index > 0 && piece.start !== endOf(pieces[index - 1]);
    if (isAfterGap) return { pieces: taken, stoppedAt: endOf(pieces[index - 1]) };
    if (!wish.streams.includes(piece.stream)) continue;
    const room = wish.maxBytes - size;
    if (piece.bytes.length > room) {
      const cut = cutBefore(piece.bytes, room);
      taken.push({ ...piece, bytes: piece.bytes.subarray(0, cut) });
      return { pieces: taken, stoppedAt: piece.start + cut };
    }
    taken.push(piece);
    size += piece.bytes.length;
  }
  return { pieces: taken };
}

function endOf(piece: Piece | undefined): number {
  return piece === undefined ? 0 : piece.start + piece.bytes.length;
}

/** Bytes at the very end that belong to a character of which more is still to come. */
function heldBack(taken: readonly Piece[], totalBytes: number): number {
  const last = taken.at(-1);
  return last !== undefined && endOf(last) === totalBytes ? incompleteTail(last.bytes) : 0;
}

function decode(pieces: readonly Piece[], stream: OutputStream, end: number): string {
  const decoder = new StringDecoder("utf8");
  let text = "";
  for (const piece of ofStream(pieces, stream)) {
    text += decoder.write(piece.bytes.subarray(0, Math.max(0, end - piece.start)));
  }
  return cleanTerminal(text + decoder.end());
}
