/** The output of a process in pages, by position. */

import type { OutputStream } from "../client/process.ts";
import { incompleteTail } from "../common/characters.ts";
import type { Piece } from "../spool/segment.ts";
import { endOf, isOf, shown } from "./excerpt.ts";
import type { OutputSource } from "./process-output.ts";
import { toParts, type QuotedPart } from "./quote.ts";
import { smallerBudget, textBytes } from "./shown-size.ts";
import { cutBefore } from "./text.ts";

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
  const cut = piece.bytes.length <= left ? piece.bytes.length : cutPiece(piece, left, taken.bytes);
  taken.at = piece.start + cut;
  if (cut < piece.bytes.length) taken.stop = "full";
  if (!isSelected || cut === 0) return;
  taken.pieces.push({ ...piece, bytes: piece.bytes.subarray(0, cut) });
  taken.bytes += cut;
}

/** A note is never cut: one that is too long for what is left begins the next page, whole. */
function cutPiece({ stream, bytes }: Piece, left: number, takenBytes: number): number {
  if (stream !== "note") return cutBefore(bytes, left);
  return takenBytes === 0 ? bytes.length : 0;
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
