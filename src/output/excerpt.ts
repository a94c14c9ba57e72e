/** The part of a process's output that a reply shows, and the position of the rest. */

import type { OutputStream } from "../client/process.ts";
import type { Piece } from "../spool/segment.ts";
import type { OutputSource } from "./process-output.ts";
import { toParts, withoutNotes, type QuotedPart } from "./quote.ts";
import { smallerBudget, textBytes } from "./shown-size.ts";
import { cutAfter, cutBefore, incompleteTail } from "./text.ts";

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
function isOf(piece: Piece, stream: OutputStream, first: OutputStream): boolean {
  return piece.stream === stream || (piece.stream === "note" && stream === first);
}

function ofStream(pieces: readonly Piece[], stream: OutputStream): readonly Piece[] {
  return pieces.filter((piece) => isOf(piece, stream, "stdout")).map((piece) => shown(piece));
}

/** The same piece; only notes keep the marker of a note. */
function shown(piece: Piece): Piece {
  return piece.stream === "note" ? piece : { ...piece, bytes: withoutNotes(piece.bytes) };
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
  const headEnd = isWhole ? gapPlace : cutBefore(bytes, Math.floor(budget * HEAD_SHARE));
  const tailBytes = budget - Math.floor(budget * HEAD_SHARE);
  const tailStart = isWhole ? gapPlace : cutAfter(bytes, bytes.length - tailBytes);
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

function endOf(piece: Piece | undefined): number {
  return piece === undefined ? 0 : piece.start + piece.bytes.length;
}

/** The next part of an output. */
export interface Page {
  readonly texts: readonly { readonly stream: OutputStream; readonly parts: QuotedPart[] }[];
  /** The position behind this page. */
  readonly nextCursor: number;
  /** The first position that is kept, when that of the request is not. */
  readonly resumedAt?: number;
}

export interface PageOptions {
  readonly cursor: number;
  readonly maxBytes: number;
  readonly streams: readonly OutputStream[];
  /** Whether more output can complete an incomplete character. */
  readonly isRunning: boolean;
}

/** Read from the source at a time. */
const READ_BYTES = 1024 * 1024;
/** The most of the other stream that one page skips; the next page continues there. */
const MAX_PASSED_BYTES = 32 * 1024 * 1024;

/** What is shown in at most `maxBytes` of the selected streams from a cursor on. */
export async function pageOutput(source: OutputSource, options: PageOptions): Promise<Page> {
  for (let budget = options.maxBytes; ;) {
    const page = await pageBytes(source, { ...options, maxBytes: budget });
    const shownBytes = textBytes(page.texts.flatMap(({ parts }) => parts));
    const smaller = smallerBudget(budget, shownBytes, options.maxBytes);
    if (smaller === undefined) return page;
    budget = smaller;
  }
}

async function pageBytes(source: OutputSource, options: PageOptions): Promise<Page> {
  const { totalBytes } = source;
  const taken = await takePieces(source, options, Math.min(options.cursor, totalBytes));
  const nextCursor = cutPage(taken, options);
  const texts = options.streams
    .map((stream) => ({
      stream,
      parts: partsOf(taken.pieces, { stream, end: nextCursor, options }),
    }))
    .filter(({ parts }) => parts.length > 0);
  return {
    texts,
    nextCursor,
    ...(taken.resumedAt !== undefined && { resumedAt: taken.resumedAt }),
  };
}

/** Steps from one incomplete character to the one before it, of streams that alternate. */
const MAX_STEPS = 64;

/** Where the page ends, so that no character is split between this page and the next one. */
function cutPage(taken: Taken, options: PageOptions): number {
  const { pieces, at, stop } = taken;
  if (stop === "gap" || (stop === "end" && !options.isRunning)) return at;
  const last = pieces.at(-1);
  const own = last !== undefined && endOf(last) === at ? incompleteTail(last.bytes) : 0;
  // What other streams wrote since is shown now: the rest of a character may be long in coming.
  if (stop === "end") return at - own;
  const first = pieces[0]?.start ?? at;
  let end = at;
  for (let step = 0; step < MAX_STEPS; step += 1) {
    const openAt = openCharacter(pieces, end, options.streams);
    if (openAt === undefined) return end;
    if (openAt <= first) break;
    end = openAt;
  }
  return at - own;
}

/** Where the first character begins that is incomplete before a position, in any of the streams. */
function openCharacter(
  pieces: readonly Piece[],
  end: number,
  streams: readonly OutputStream[],
): number | undefined {
  const [first = "stdout"] = streams;
  const open = streams.flatMap((stream) => {
    const newest: { readonly position: number; readonly byte: number }[] = [];
    for (let index = pieces.length - 1; index >= 0 && newest.length < MAX_OPEN_BYTES; index -= 1) {
      const piece = pieces[index];
      if (piece === undefined || !isOf(piece, stream, first)) continue;
      const size = Math.min(piece.bytes.length, end - piece.start);
      for (let at = size - 1; at >= 0 && newest.length < MAX_OPEN_BYTES; at -= 1) {
        newest.unshift({ position: piece.start + at, byte: piece.bytes[at] ?? 0 });
      }
    }
    const count = incompleteTail(Uint8Array.from(newest, ({ byte }) => byte));
    return count === 0 ? [] : [newest[newest.length - count]?.position ?? end];
  });
  return open.length === 0 ? undefined : Math.min(...open);
}

/** An incomplete character has three bytes at most. */
const MAX_OPEN_BYTES = 3;

interface Taken {
  readonly pieces: Piece[];
  bytes: number;
  /** Position behind what was taken or passed over. */
  at: number;
  stop: "full" | "gap" | "end";
  resumedAt: number | undefined;
}

async function takePieces(
  source: OutputSource,
  options: PageOptions,
  from: number,
): Promise<Taken> {
  const { totalBytes } = source;
  const taken: Taken = { pieces: [], bytes: 0, at: from, stop: "end", resumedAt: undefined };
  while (taken.at < totalBytes && taken.stop === "end") {
    // The position of the next part is known once this one is read.
    const pieces = await source.pieces(taken.at, READ_BYTES);
    if (pieces.length === 0) {
      taken.at = totalBytes;
      taken.resumedAt = totalBytes;
    }
    for (const piece of pieces) {
      takePiece(taken, piece, { options, from });
      if (taken.stop !== "end") break;
    }
    if (taken.stop === "end" && taken.at - from >= MAX_PASSED_BYTES) taken.stop = "full";
  }
  return taken;
}

function takePiece(
  taken: Taken,
  piece: Piece,
  { options, from }: { readonly options: PageOptions; readonly from: number },
): void {
  if (piece.start > taken.at && taken.at > from) {
    taken.stop = "gap";
    return;
  }
  if (piece.start > taken.at) taken.resumedAt = piece.start;
  const [first = "stdout"] = options.streams;
  const isSelected = options.streams.some((stream) => isOf(piece, stream, first));
  const left = isSelected ? options.maxBytes - taken.bytes : piece.bytes.length;
  const cut = piece.bytes.length <= left ? piece.bytes.length : cutBefore(piece.bytes, left);
  taken.at = piece.start + cut;
  if (cut < piece.bytes.length) taken.stop = "full";
  if (!isSelected || cut === 0) return;
  taken.pieces.push({ ...piece, bytes: piece.bytes.subarray(0, cut) });
  taken.bytes += cut;
}

function partsOf(
  pieces: readonly Piece[],
  {
    stream,
    end,
    options,
  }: { readonly stream: OutputStream; end: number; readonly options: PageOptions },
): QuotedPart[] {
  const [first = "stdout"] = options.streams;
  const own = pieces.filter((other) => isOf(other, stream, first)).map((piece) => shown(piece));
  const bytes = own.map((piece) => piece.bytes.subarray(0, Math.max(0, end - piece.start)));
  return toParts(Buffer.concat(bytes));
}
