/** The beginning and the end of a process's output, within a budget, and the position of the rest. */

import type { OutputStream } from "../client/process.ts";
import { incompleteTail } from "../common/characters.ts";
import type { Piece } from "../spool/segment.ts";
import type { ProcessOutput } from "./process-output.ts";
import {
  endBeforeNote,
  restOfNote,
  startAfterNote,
  toParts,
  withoutNotes,
  type QuotedPart,
} from "./quote.ts";
import { smallerBudget, textBytes } from "./shown-size.ts";
import { cutAfter, cutBefore } from "./text.ts";

/** The share of a cut text that is kept from its beginning; the rest is kept from its end. */
const HEAD_SHARE = 0.25;

/** One stream's text, whole or without its middle. */
export interface Excerpt {
  readonly stream: OutputStream;
  readonly head: readonly QuotedPart[];
  /** Absent when nothing was left out. */
  readonly cut?: {
    readonly omittedBytes: number;
    /** The position of the omitted part. */
    readonly cursor: number;
    readonly tail: readonly QuotedPart[];
  };
}

/** The first and the newest part of an output, and how much each stream wrote. */
export interface Recent {
  readonly pieces: readonly Piece[];
  readonly written: Readonly<Record<OutputStream, number>>;
}

const STREAMS = ["stdout", "stderr"] as const;

/** Both streams of a finished or running process within one budget of shown bytes. */
export function excerptOutput(recent: Recent, maxBytes: number): readonly Excerpt[] {
  for (let budget = maxBytes; ;) {
    const excerpts = excerptBytes(recent, budget);
    const parts = excerpts.flatMap(({ head, cut }) => [...head, ...(cut?.tail ?? [])]);
    const smaller = smallerBudget(budget, textBytes(parts), maxBytes);
    if (smaller === undefined) return excerpts;
    budget = smaller;
  }
}

function excerptBytes(recent: Recent, maxBytes: number): readonly Excerpt[] {
  const { pieces, written } = recent;
  const sizes = { stdout: sizeOf(pieces, "stdout"), stderr: sizeOf(pieces, "stderr") };
  const half = Math.floor(maxBytes / 2);
  // The smaller stream is shown whole if it fits in half; the other one gets the rest.
  const stderrBudget = Math.min(sizes.stderr, Math.max(half, maxBytes - sizes.stdout));
  const budgets = { stdout: maxBytes - stderrBudget, stderr: stderrBudget };
  return STREAMS.filter((stream) => sizes[stream] > 0 || written[stream] > 0).map((stream) =>
    excerptStream(ofStream(pieces, stream), {
      stream,
      budget: budgets[stream],
      missingBytes: Math.max(0, written[stream] - bytesOf(pieces, stream)),
      gapStart: gapStart(pieces),
    }),
  );
}

/** Whether a piece is shown in a stream; notes are shown in the first one. */
export function isOf(piece: Piece, stream: OutputStream, first: OutputStream): boolean {
  return piece.stream === stream || (piece.stream === "note" && stream === first);
}

function ofStream(pieces: readonly Piece[], stream: OutputStream): readonly Piece[] {
  return pieces.filter((piece) => isOf(piece, stream, "stdout")).map((piece) => shown(piece));
}

/** The same piece; only notes keep the marker of a note. */
export function shown({ stream, start, bytes }: Piece): Piece {
  return { stream, start, bytes: stream === "note" ? restOfNote(bytes) : withoutNotes(bytes) };
}

function sizeOf(pieces: readonly Piece[], stream: OutputStream): number {
  return ofStream(pieces, stream).reduce((sum, piece) => sum + piece.bytes.length, 0);
}

function bytesOf(pieces: readonly Piece[], stream: OutputStream): number {
  const own = pieces.filter((piece) => piece.stream === stream);
  return own.reduce((sum, piece) => sum + piece.bytes.length, 0);
}

/** The end of the first part; of all pieces where there is no gap. */
function gapStart(pieces: readonly Piece[]): number {
  const before = pieces.findIndex((piece, index) => {
    const next = pieces[index + 1];
    return next !== undefined && next.start !== endOf(piece);
  });
  return endOf(pieces[before === -1 ? pieces.length - 1 : before]);
}

interface StreamBudget {
  readonly stream: OutputStream;
  readonly budget: number;
  /** Of this stream, in the gap between the first and the newest part. */
  readonly missingBytes: number;
  readonly gapStart: number;
}

function excerptStream(own: readonly Piece[], options: StreamBudget): Excerpt {
  const { stream, budget, missingBytes } = options;
  const bytes = Buffer.concat(own.map((piece) => piece.bytes));
  const isWhole = bytes.length <= budget;
  if (isWhole && missingBytes === 0) return { stream, head: toParts(bytes) };
  const first = own.filter((piece) => piece.start < options.gapStart);
  const gapPlace = first.reduce((sum, piece) => sum + piece.bytes.length, 0);
  const headBytes = Math.floor(budget * HEAD_SHARE);
  const tailFrom = bytes.length - budget + headBytes;
  const headEnd = isWhole ? gapPlace : endBeforeNote(bytes, cutBefore(bytes, headBytes));
  const tailStart = isWhole ? gapPlace : startAfterNote(bytes, cutAfter(bytes, tailFrom));
  return {
    stream,
    head: toParts(bytes.subarray(0, headEnd)),
    cut: {
      omittedBytes: tailStart - headEnd + missingBytes,
      cursor: isWhole ? options.gapStart : positionOf(own, headEnd),
      tail: toParts(bytes.subarray(tailStart)),
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
  return endOf(pieces.at(-1));
}

export function endOf(piece: Piece | undefined): number {
  return piece === undefined ? 0 : piece.start + piece.bytes.length;
}

/**
 * What a reply shows of an output, and the position of the next page. The beginning of a character
 * whose rest can still come is left to that page.
 */
export function recentOf(
  output: Pick<ProcessOutput, "recent" | "written" | "totalBytes">,
  isRunning: boolean,
): Recent & { readonly end: number } {
  const { written, totalBytes } = output;
  const pieces = output.recent();
  const last = pieces.at(-1);
  const open = last === undefined || !isRunning ? 0 : incompleteTail(last.bytes);
  if (last === undefined || last.stream === "note" || open === 0) {
    return { pieces, written, end: totalBytes };
  }
  const whole = { ...last, bytes: last.bytes.subarray(0, last.bytes.length - open) };
  return {
    pieces: [...pieces.slice(0, -1), whole],
    written: { ...written, [last.stream]: written[last.stream] - open },
    end: totalBytes - open,
  };
}
