/** The output of a process in memory: the first and the newest part, with a gap between them. */

import assert from "node:assert/strict";
import type { Piece, SpoolStream, StreamSizes } from "../spool/segment.ts";

/** The first part of the output, which often holds the first error. */
export const HEAD_BYTES = 256 * 1024;
/** The newest part of the output, kept in a ring. */
export const TAIL_BYTES = 768 * 1024;
/** Recorded changes between the streams; beyond it the oldest output is dropped. */
const MAX_RUNS = 16_384;
const FIRST_ALLOCATION_BYTES = 4_096;

/** The newest bytes of a sequence; positions count from its beginning. */
export class ByteRing {
  readonly #capacity: number;
  #bytes = Buffer.alloc(0);
  #start = 0;
  #end = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Position of the oldest byte that is kept. */
  get start(): number {
    return this.#start;
  }

  /** Position behind the newest byte. */
  get end(): number {
    return this.#end;
  }

  append(chunk: Uint8Array): void {
    const kept = chunk.subarray(Math.max(0, chunk.length - this.#capacity));
    this.#end += chunk.length - kept.length;
    this.#grow(this.#end + kept.length);
    const at = this.#end % this.#capacity;
    const untilWrap = Math.min(kept.length, this.#capacity - at);
    this.#bytes.set(kept.subarray(0, untilWrap), at);
    this.#bytes.set(kept.subarray(untilWrap), 0);
    this.#end += kept.length;
    this.#start = Math.max(this.#start, this.#end - this.#capacity);
  }

  /** A copy of the bytes from one position to another; both must be kept. */
  slice(from: number, to: number): Buffer {
    assert(from >= this.#start && to <= this.#end && from <= to);
    const copy = Buffer.alloc(to - from);
    const at = from % this.#capacity;
    const untilWrap = Math.min(copy.length, this.#capacity - at);
    this.#bytes.copy(copy, 0, at, at + untilWrap);
    this.#bytes.copy(copy, untilWrap, 0, copy.length - untilWrap);
    return copy;
  }

  dropBefore(position: number): void {
    this.#start = Math.min(this.#end, Math.max(this.#start, position));
  }

  /** Grows by copying: positions equal offsets until the ring is full. */
  #grow(wanted: number): void {
    const needed = Math.min(wanted, this.#capacity);
    if (this.#bytes.length >= needed) return;
    const doubled = Math.max(FIRST_ALLOCATION_BYTES, this.#bytes.length * 2, needed);
    const grown = Buffer.alloc(Math.min(this.#capacity, doubled));
    this.#bytes.copy(grown);
    this.#bytes = grown;
  }
}

/** A ring that records which stream wrote its bytes. */
class StreamRing {
  readonly bytes: ByteRing;
  #runs: { readonly stream: SpoolStream; readonly start: number }[] = [];

  constructor(capacity: number) {
    this.bytes = new ByteRing(capacity);
  }

  get runCount(): number {
    return this.#runs.length;
  }

  append(stream: SpoolStream, chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    if (this.#runs.at(-1)?.stream !== stream) this.#runs.push({ stream, start: this.bytes.end });
    this.bytes.append(chunk);
    if (this.#runs.length > MAX_RUNS) this.#forgetRuns();
  }

  /** What is kept from a position of this ring on; `base` is added to the positions. */
  pieces(from: number, base: number): readonly Piece[] {
    const lowest = Math.max(from, this.bytes.start);
    return this.#runs.flatMap((run, index) => {
      const start = Math.max(run.start, lowest);
      const end = this.#runs[index + 1]?.start ?? this.bytes.end;
      if (start >= end) return [];
      return [{ stream: run.stream, start: base + start, bytes: this.bytes.slice(start, end) }];
    });
  }

  /** Drops runs without bytes; if there are still too many, the older half with its bytes. */
  #forgetRuns(): void {
    const kept = this.#runs.findLastIndex((run) => run.start <= this.bytes.start);
    this.#runs = this.#runs.slice(Math.max(kept, 0));
    if (this.#runs.length <= MAX_RUNS) return;
    this.#runs = this.#runs.slice(MAX_RUNS / 2);
    this.bytes.dropBefore(this.#runs[0]?.start ?? 0);
  }
}

/** The output of one process, both streams in order of arrival. */
export class OutputBuffer {
  readonly #head = new StreamRing(HEAD_BYTES);
  readonly #tail = new StreamRing(TAIL_BYTES);
  readonly #written: StreamSizes = { stdout: 0, stderr: 0, note: 0 };
  #isHeadFull = false;

  /** How many bytes were written, kept or not. */
  get totalBytes(): number {
    return this.#head.bytes.end + this.#tail.bytes.end;
  }

  /** How many bytes each stream wrote, kept or not. */
  get written(): Readonly<StreamSizes> {
    return this.#written;
  }

  /** What is no longer kept; empty when everything is. */
  get gap(): { readonly start: number; readonly end: number } {
    const { end: start } = this.#head.bytes;
    return { start, end: start + this.#tail.bytes.start };
  }

  get keptBytes(): number {
    return this.totalBytes - this.#tail.bytes.start;
  }

  /** Never fails and never waits: what does not fit replaces older output. */
  append(stream: SpoolStream, chunk: Uint8Array): void {
    const headLeft = this.#isHeadFull ? 0 : HEAD_BYTES - this.#head.bytes.end;
    this.#head.append(stream, chunk.subarray(0, headLeft));
    this.#tail.append(stream, chunk.subarray(headLeft));
    // The head is full before it has too many runs: it must not drop bytes.
    this.#isHeadFull ||= chunk.length >= headLeft || this.#head.runCount >= MAX_RUNS;
    this.#written[stream] += chunk.length;
  }

  /** Everything that is kept from a position on, oldest first. */
  pieces(from: number): readonly Piece[] {
    const base = this.#head.bytes.end;
    return [...this.#head.pieces(from, 0), ...this.#tail.pieces(from - base, base)];
  }
}
