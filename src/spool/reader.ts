/** Reads a spool of any server: pieces by position, and how much there is. */

import { join } from "node:path";
import { readLayout, segmentName, type Layout } from "./folders.ts";
import {
  readSegment,
  totalOf,
  type Piece,
  type PieceRange,
  type Segment,
  type StreamSizes,
} from "./segment.ts";

/** Of one read. */
const MAX_PIECES = 16_384;

/** How much was written, kept or not. */
export interface Extent {
  readonly written: StreamSizes;
  /** Position behind the last byte. */
  readonly end: number;
  /** What is no longer kept; empty when everything is. */
  readonly gap: Layout["gap"];
}

/**
 * What is kept from a position on, oldest first, until about `maxBytes` or `MAX_PIECES` are there.
 * Where nothing is kept at that position, the first piece begins later.
 */
export async function readPieces(
  folder: string,
  from: number,
  maxBytes: number,
): Promise<readonly Piece[]> {
  const { starts } = await readLayout(folder);
  const first = Math.max(
    0,
    starts.findLastIndex((start) => start <= from),
  );
  const pieces: Piece[] = [];
  let bytes = 0;
  for (const [index, start] of starts.entries()) {
    if (index < first) continue;
    const most = MAX_PIECES - pieces.length;
    if (bytes >= maxBytes || most === 0) break;
    // Sequential: how many files are needed depends on what they hold.
    const segment = await readAt(folder, start, { from, most });
    // A write that a stalled disk does at last can reach into the file that follows.
    const end = starts[index + 1] ?? Number.POSITIVE_INFINITY;
    for (const piece of segment?.pieces ?? []) {
      const skipped = Math.max(0, from - piece.start);
      const length = Math.min(piece.bytes.length, end - piece.start);
      if (skipped >= length) continue;
      const shown = piece.bytes.subarray(skipped, length);
      const kept = { ...piece, start: piece.start + skipped, bytes: shown };
      pieces.push(kept);
      bytes += kept.bytes.length;
    }
  }
  return mergePieces(pieces);
}

/** How much a spool has taken. */
export async function measureSpool(folder: string): Promise<Extent> {
  const { starts, gap } = await readLayout(folder);
  const last = await readLast(folder, starts);
  const written = last?.written ?? { stdout: 0, stderr: 0, note: 0 };
  return { written, end: totalOf(written), gap };
}

/** The last file with a whole header: a killed server can leave one without. */
async function readLast(folder: string, starts: readonly number[]): Promise<Segment | undefined> {
  for (const start of starts.toReversed()) {
    const segment = await readAt(folder, start, NO_PIECES);
    if (segment !== undefined) return segment;
  }
  return undefined;
}

const NO_PIECES: PieceRange = { from: 0, most: 0 };

async function readAt(
  folder: string,
  start: number,
  range: PieceRange,
): Promise<Segment | undefined> {
  return readSegment(join(folder, segmentName(start)), range);
}

/** Pieces that follow each other in one stream, as one. */
function mergePieces(pieces: readonly Piece[]): readonly Piece[] {
  const merged: { stream: Piece["stream"]; start: number; end: number; parts: Buffer[] }[] = [];
  for (const { stream, start, bytes } of pieces) {
    const last = merged.at(-1);
    if (last !== undefined && last.stream === stream && last.end === start) {
      last.parts.push(bytes);
      last.end += bytes.length;
    } else {
      merged.push({ stream, start, end: start + bytes.length, parts: [bytes] });
    }
  }
  return merged.map(({ stream, start, parts }) => {
    const [only] = parts;
    const bytes = parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
    return { stream, start, bytes };
  });
}
