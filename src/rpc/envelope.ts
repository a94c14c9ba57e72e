/**
 * The envelopes of Connect streams: a byte of flags, the length of the message in four bytes, and
 * the message. The library's reader copies every message and its writer takes one message at a time,
 * which costs more than all other work on the output of a process (docs/adr/0024).
 */

import { createByteBuffer } from "../common/bytes.ts";
import { SandboxError } from "../common/errors.ts";
import type { JsonGauge } from "../common/json.ts";

export const ENVELOPE_HEAD_BYTES = 5;
/** The last message of a stream, which is JSON in either codec. */
export const END_STREAM_FLAG = 2;

export function encodeEnvelope(message: string | Uint8Array, flags = 0): Buffer {
  const length = Buffer.byteLength(message);
  const envelope = Buffer.allocUnsafe(ENVELOPE_HEAD_BYTES + length);
  writeEnvelopeHead(envelope, { at: 0, length, flags });
  if (typeof message === "string") envelope.write(message, ENVELOPE_HEAD_BYTES, "utf8");
  else envelope.set(message, ENVELOPE_HEAD_BYTES);
  return envelope;
}

/** The head of an envelope whose message is written behind it. */
export function writeEnvelopeHead(
  target: Buffer,
  head: { readonly at: number; readonly length: number; readonly flags?: number },
): void {
  target.writeUInt8(head.flags ?? 0, head.at);
  target.writeUInt32BE(head.length, head.at + 1);
}

export interface Envelope {
  readonly flags: number;
  /** With its head. A view of the chunk where it came in one piece: good until the next is read. */
  readonly bytes: Uint8Array;
  /** Without its head, the same view. */
  readonly message: Uint8Array;
}

export interface EnvelopeReaderOptions {
  /** What one message may have. */
  readonly maxBytes: number;
  /** Judges the messages with these flags, piece by piece as they come. */
  readonly createGauge?: (flags: number) => JsonGauge;
}

export interface EnvelopeReader {
  /**
   * The envelopes that end in the next chunk, all of which must be taken before the chunk after it.
   * @throws SandboxError resource_exhausted for a head that announces too much, and what a gauge throws
   */
  read(chunk: Uint8Array): Generator<Envelope, void>;
  /** The beginning of an envelope that did not end; undefined without one. */
  rest(): Uint8Array | undefined;
}

/** A reader for the envelopes of one body. A head that announces much allocates nothing. */
export function createEnvelopeReader({
  maxBytes,
  createGauge,
}: EnvelopeReaderOptions): EnvelopeReader {
  /** What is there of an envelope that did not come in one piece. */
  const begun = createByteBuffer();
  const head = Buffer.alloc(ENVELOPE_HEAD_BYTES);
  let headBytes = 0;
  /** Of the message whose head is complete. */
  let missing = 0;
  let gauge: JsonGauge | undefined;

  /** How many bytes from `at` on belong to the head or to the message that has begun. */
  function advance(chunk: Uint8Array, at: number): number {
    if (headBytes < ENVELOPE_HEAD_BYTES) {
      const piece = chunk.subarray(at, at + ENVELOPE_HEAD_BYTES - headBytes);
      head.set(piece, headBytes);
      headBytes += piece.length;
      if (headBytes === ENVELOPE_HEAD_BYTES) {
        missing = head.readUInt32BE(1);
        requireSize(missing, maxBytes);
        gauge = createGauge?.(head.readUInt8(0));
      }
      return piece.length;
    }
    const length = Math.min(missing, chunk.length - at);
    gauge?.(chunk.subarray(at, at + length));
    missing -= length;
    return length;
  }

  function whole(piece: Uint8Array): Envelope {
    let bytes = piece;
    if (begun.length > 0) {
      begun.add(piece);
      bytes = begun.take();
    }
    return { flags: head.readUInt8(0), bytes, message: bytes.subarray(ENVELOPE_HEAD_BYTES) };
  }

  return {
    *read(chunk) {
      let start = 0;
      for (let at = 0; at < chunk.length;) {
        at += advance(chunk, at);
        if (headBytes < ENVELOPE_HEAD_BYTES || missing > 0) continue;
        headBytes = 0;
        const envelope = whole(chunk.subarray(start, at));
        start = at;
        yield envelope;
      }
      if (start < chunk.length) begun.add(chunk.subarray(start));
    },
    rest: () => (begun.length === 0 ? undefined : begun.take()),
  };
}

/** @throws SandboxError resource_exhausted */
export function requireSize(size: number, maxBytes: number): void {
  if (size <= maxBytes) return;
  throw new SandboxError("resource_exhausted", `message exceeds ${maxBytes} bytes`);
}
