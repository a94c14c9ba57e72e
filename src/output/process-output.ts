/** The output of a process: its first and newest part in memory, all of it in a spool. */

import type { OutputStream } from "../client/process.ts";
import { readPieces, measureSpool, type Extent } from "../spool/reader.ts";
import type { Piece, SpoolStream } from "../spool/segment.ts";
import type { SpoolLimits } from "../spool/writer-files.ts";
import type { SpoolWriter } from "../spool/writer.ts";
import { OutputBuffer } from "./output-buffer.ts";

/** The first part often holds the first error, the newest one the result. */
export const PROCESS_LIMITS: SpoolLimits = {
  fileBytes: 4 * 1024 * 1024,
  headBytes: 32 * 1024 * 1024,
  tailBytes: 96 * 1024 * 1024,
};

/** Output that can be read by position. */
export interface OutputSource {
  /** How many bytes were written, kept or not. */
  readonly totalBytes: number;
  /** The same by stream, without the notes of this server. */
  readonly written: Readonly<Record<OutputStream, number>>;
  /** How many bytes are kept nowhere. */
  readonly lostBytes: number;
  /**
   * What is kept from a position on, oldest first, until about `maxBytes` are there. Where nothing
   * is kept at that position, the first piece begins later.
   */
  pieces(from: number, maxBytes: number): Promise<readonly Piece[]>;
}

/** The output of a process that this server watches. */
export class ProcessOutput implements OutputSource {
  readonly #spool: SpoolWriter | undefined;
  /** What a spool that was taken over held; positions continue from its end. */
  readonly #before: Extent | undefined;
  readonly #base: number;
  readonly #recent = new OutputBuffer();

  constructor(spool: SpoolWriter | undefined, before?: Extent) {
    this.#spool = spool;
    this.#before = before;
    this.#base = before?.end ?? 0;
  }

  get totalBytes(): number {
    return this.#base + this.#recent.totalBytes;
  }

  get written(): Readonly<Record<OutputStream, number>> {
    const { stdout, stderr } = this.#recent.written;
    const before = this.#before?.written;
    return { stdout: stdout + (before?.stdout ?? 0), stderr: stderr + (before?.stderr ?? 0) };
  }

  /** How many bytes are in memory. */
  get heldBytes(): number {
    return this.#recent.keptBytes;
  }

  get lostBytes(): number {
    const dropped = this.#recent.gap;
    const gap = { start: this.#base + dropped.start, end: this.#base + dropped.end };
    const spool = this.#spool;
    if (spool === undefined) return gap.end - gap.start;
    const { failure } = spool;
    const isBehind = failure !== undefined && failure.position < gap.end;
    const unwritten = isBehind ? gap.end - Math.max(gap.start, failure.position) : 0;
    return spool.gap.end - spool.gap.start + unwritten;
  }

  /** Why nothing more is written to the disk; undefined while writing succeeds. */
  get failure(): unknown {
    return this.#spool?.failure?.error;
  }

  /** Resolves when other servers can find it, or never will. */
  async announced(): Promise<void> {
    await this.#spool?.announced;
  }

  /** Appends output; the promise, if any, must be awaited before the next call. */
  append(stream: SpoolStream, bytes: Uint8Array): Promise<void> | undefined {
    this.#recent.append(stream, bytes);
    return this.#spool?.append(stream, bytes);
  }

  /** The first and the newest part, from memory. */
  recent(): readonly Piece[] {
    return this.#shifted(this.#recent.pieces(0));
  }

  async pieces(from: number, maxBytes: number): Promise<readonly Piece[]> {
    const { gap } = this.#recent;
    const start = from - this.#base;
    const isInMemory = start >= gap.end || (start >= 0 && gap.start === gap.end);
    if (isInMemory || this.#spool === undefined) {
      return this.#shifted(this.#recent.pieces(start));
    }
    if (start >= 0 && start < gap.start) {
      const first = this.#recent.pieces(start).filter((piece) => piece.start < gap.start);
      return this.#shifted(first);
    }
    const stored = await this.#stored(from, maxBytes);
    return stored.length > 0 ? stored : this.#shifted(this.#recent.pieces(Math.max(0, start)));
  }

  /** Writes the rest to the disk and closes the file; more output can follow. */
  async park(): Promise<void> {
    await this.#spool?.park();
  }

  /** Writes the rest to the disk, and how it ended; nothing can be appended any more. */
  async close(ending: object): Promise<void> {
    await this.#spool?.close(ending);
  }

  async #stored(from: number, maxBytes: number): Promise<readonly Piece[]> {
    const spool = this.#spool;
    if (spool === undefined) return [];
    const pieces = await readPieces(spool.place.folder, from, maxBytes);
    if (pieces.length > 0) return pieces;
    // These bytes may not be written yet.
    await spool.flush();
    return readPieces(spool.place.folder, from, maxBytes);
  }

  #shifted(pieces: readonly Piece[]): readonly Piece[] {
    if (this.#base === 0) return pieces;
    return pieces.map((piece) => ({ ...piece, start: piece.start + this.#base }));
  }
}

/** Output in the spool of another server, which can get another owner and so another folder. */
export class StoredOutput implements OutputSource {
  #folder: string;
  #extent: Extent;
  readonly #locate: () => Promise<string | undefined>;

  /** @param locate returns where the spool is now; undefined when it is gone. */
  constructor(folder: string, extent: Extent, locate: () => Promise<string | undefined>) {
    this.#folder = folder;
    this.#extent = extent;
    this.#locate = locate;
  }

  get totalBytes(): number {
    return this.#extent.end;
  }

  get written(): Readonly<Record<OutputStream, number>> {
    return this.#extent.written;
  }

  get lostBytes(): number {
    return this.#extent.gap.end - this.#extent.gap.start;
  }

  /** Reads the current size; of a spool that is being removed the size stays. */
  async refresh(folder: string): Promise<void> {
    this.#folder = folder;
    const extent = await measureSpool(folder);
    if (extent.end >= this.#extent.end) this.#extent = extent;
  }

  async pieces(from: number, maxBytes: number): Promise<readonly Piece[]> {
    const pieces = await readPieces(this.#folder, from, maxBytes);
    if (pieces.length > 0 || from >= this.totalBytes) return pieces;
    const folder = await this.#locate();
    if (folder === undefined || folder === this.#folder) return pieces;
    this.#folder = folder;
    return readPieces(folder, from, maxBytes);
  }
}
