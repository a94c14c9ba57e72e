/**
 * One file of a spool: a header that says how much came before, then frames, each of one stream.
 * It is only ever appended to, so a reader takes what is there, a torn last frame included.
 */

import { readFile } from "node:fs/promises";
import { ifThere } from "../common/files.ts";

/** The streams of the program, and the notes of this server about missing output. */
export type SpoolStream = "stdout" | "stderr" | "note";

const STREAMS = ["stdout", "stderr", "note"] as const satisfies readonly SpoolStream[];

export type StreamSizes = Record<SpoolStream, number>;

/** Bytes of one stream that were written without a break. */
export interface Piece {
  readonly stream: SpoolStream;
  /** Position of the first byte in the whole output. */
  readonly start: number;
  readonly bytes: Buffer;
}

/** What a file of a spool holds. */
export interface Segment {
  /** What was written up to its end, by stream; the sum is the position behind its last byte. */
  readonly written: StreamSizes;
  /** Those that were asked for. */
  readonly pieces: readonly Piece[];
}

/** Pieces from a position on, at most so many: streams that alternate make one of each byte. */
export interface PieceRange {
  readonly from: number;
  readonly most: number;
}

const MAGIC = "smcpspl1";
export const HEADER_BYTES = MAGIC.length + STREAMS.length * 8;
export const FRAME_HEADER_BYTES = 4;
/** The stream takes the upper bits of a frame's header, the length the rest. */
const STREAM_SHIFT = 28;
const LENGTH_MASK = (1 << STREAM_SHIFT) - 1;

/** The sum over all streams, which is a position. */
export function totalOf(sizes: StreamSizes): number {
  return sizes.stdout + sizes.stderr + sizes.note;
}

/** The first bytes of a file. */
export function encodeHeader(before: StreamSizes): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(MAGIC, "latin1");
  for (const [index, stream] of STREAMS.entries()) {
    header.writeBigUInt64LE(BigInt(before[stream]), MAGIC.length + index * 8);
  }
  return header;
}

/** Writes the header of a frame; its bytes follow. */
export function writeFrameHeader(
  target: Buffer,
  at: number,
  frame: { readonly stream: SpoolStream; readonly length: number },
): void {
  target.writeUInt32LE(STREAMS.indexOf(frame.stream) * 2 ** STREAM_SHIFT + frame.length, at);
}

/** A file of a spool; undefined when it is gone or none. */
export async function readSegment(path: string, range: PieceRange): Promise<Segment | undefined> {
  const file = await ifThere(readFile(path));
  // Dropped to free space: the reader takes it as a gap.
  return file === undefined ? undefined : decodeSegment(file, range);
}

function decodeSegment(file: Buffer, { from, most }: PieceRange): Segment | undefined {
  if (file.length < HEADER_BYTES || file.toString("latin1", 0, MAGIC.length) !== MAGIC) {
    return undefined;
  }
  const written = { stdout: 0, stderr: 0, note: 0 };
  for (const [index, stream] of STREAMS.entries()) {
    written[stream] = Number(file.readBigUInt64LE(MAGIC.length + index * 8));
  }
  const pieces: Piece[] = [];
  let position = totalOf(written);
  let at = HEADER_BYTES;
  while (at + FRAME_HEADER_BYTES < file.length) {
    const word = file.readUInt32LE(at);
    const stream = STREAMS[word >>> STREAM_SHIFT];
    if (stream === undefined) break;
    at += FRAME_HEADER_BYTES;
    const length = Math.min(word & LENGTH_MASK, file.length - at);
    if (length > 0 && position + length > from && pieces.length < most) {
      pieces.push({ stream, start: position, bytes: file.subarray(at, at + length) });
    }
    written[stream] += length;
    position += length;
    at += length;
  }
  return { written, pieces };
}
