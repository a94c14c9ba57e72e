/**
 * Writing a spool. Bytes gather in one buffer while the other one goes to the disk, so little
 * output costs few writes, and whoever appends faster than the disk takes it is told to wait. A
 * fault of the disk ends the writing, never the process whose output it is.
 */

import { open, rename, rm, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { END_FILE, headName, segmentName, type SpoolLocation } from "./folders.ts";
import type { Extent } from "./reader.ts";
import {
  encodeHeader,
  FRAME_HEADER_BYTES,
  HEADER_BYTES,
  totalOf,
  writeFrameHeader,
  type SpoolStream,
  type StreamSizes,
} from "./segment.ts";

const FIRST_BUFFER_BYTES = 4 * 1024;
const BUFFER_BYTES = 256 * 1024;
/** With this much the disk is not made to wait for more. */
const EAGER_BYTES = 32 * 1024;
/** Less output waits this long for more, and so does all else; it is what a killed server loses. */
const GATHER_MS = 20;
/** A disk that takes longer for one write is given up. */
const STALL_MS = 5_000;

/** How much of a spool is kept. */
export interface SpoolLimits {
  /** Of one file; what is dropped is dropped by whole files. */
  readonly fileBytes: number;
  readonly headBytes: number;
  readonly tailBytes: number;
}

/** Whether a spool may grow, must drop as much as it adds, or must stop. */
export type Room = "free" | "tight" | "none";

export interface SpoolWriterOptions {
  readonly place: SpoolLocation;
  readonly limits: SpoolLimits;
  /** What is there already when a spool is taken over; absent for a new one. */
  readonly extent?: Extent;
  readonly files?: readonly SpoolFile[];
  /** Called once. Rejects when nothing can be written at all. */
  makeFolder(place: SpoolLocation): Promise<void>;
  /** Asked before each new file. */
  room(place: SpoolLocation, bytes: number): Promise<Room>;
}

export interface SpoolWriter {
  readonly place: SpoolLocation;
  /** Position behind the last byte that was appended. */
  readonly end: number;
  /** What was written and is no longer kept. */
  readonly gap: { readonly start: number; readonly end: number };
  /** Why nothing is written any more, and from which position on; undefined while all is well. */
  readonly failure: { readonly error: unknown; readonly position: number } | undefined;
  /** Asked for, others can find the spool as soon as can be; resolves then, or when they never will. */
  readonly announced: Promise<void>;
  /** Takes bytes; the promise, when there is one, must be awaited before more come. */
  append(stream: SpoolStream, bytes: Uint8Array): Promise<void> | undefined;
  /** Resolves when everything appended so far is on the disk or lost. */
  flush(): Promise<void>;
  /** Writes the rest and lets go of the file; what may come later begins another one. */
  park(): Promise<void>;
  /** Writes the rest and, if given, how it ended; then nothing can be appended any more. */
  close(ending: object | undefined): Promise<void>;
}

interface Gathering {
  buffer: Buffer;
  filled: number;
  /** Where the header of the frame lies that can still grow; -1 without one. */
  frameAt: number;
  stream: SpoolStream;
  /** What came before the first byte of this buffer. */
  before: StreamSizes;
}

/** A file of a spool, by the position of its first byte of output. */
export interface SpoolFile {
  readonly start: number;
  /** On the disk. */
  readonly bytes: number;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly start: number;
  bytes: number;
}

/** A writer for one spool; its folder is made in a moment, or as soon as it is needed. */
export function createSpoolWriter(options: SpoolWriterOptions): SpoolWriter {
  return new Writer(options);
}

class Writer implements SpoolWriter {
  readonly place: SpoolLocation;
  readonly #options: SpoolWriterOptions;
  readonly #written: StreamSizes;
  #gap: { readonly start: number; readonly end: number };
  #gathering: Gathering;
  #spare: Buffer | undefined;
  #file: OpenFile | undefined;
  #making: Promise<void> | undefined;
  #soon: NodeJS.Timeout | undefined;
  #announced: Promise<void> | undefined;
  /** The files of the newest part. */
  #segments: SpoolFile[] = [];
  #headBytes = 0;
  /** Everything before this position is on the disk, as far as it is kept. */
  #durable: number;
  #failure: { readonly error: unknown; readonly position: number } | undefined;
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: SpoolWriterOptions) {
    this.#options = options;
    this.place = options.place;
    this.#written = { stdout: 0, stderr: 0, note: 0, ...options.extent?.written };
    this.#gap = options.extent?.gap ?? { start: 0, end: 0 };
    this.#gathering = this.#emptyGathering(Buffer.alloc(0));
    this.#durable = this.end;
    for (const file of options.files ?? []) this.#keep(file);
    this.#soon = setTimeout(() => void this.announced, GATHER_MS);
  }

  get announced(): Promise<void> {
    clearTimeout(this.#soon);
    this.#announced ??= this.#attempt(() => this.#makeFolder());
    return this.#announced;
  }

  get end(): number {
    return totalOf(this.#written);
  }

  get gap(): { readonly start: number; readonly end: number } {
    return this.#gap;
  }

  get failure(): { readonly error: unknown; readonly position: number } | undefined {
    return this.#failure;
  }

  append(stream: SpoolStream, bytes: Uint8Array): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    const taken = this.#gather(stream, bytes);
    this.#plan();
    return taken === bytes.length ? undefined : this.#appendRest(stream, bytes.subarray(taken));
  }

  async flush(): Promise<void> {
    for (;;) {
      this.#write();
      if (this.#writing === undefined || this.#failure !== undefined) return;
      await this.#settle();
    }
  }

  async park(): Promise<void> {
    await this.flush();
    await this.#attempt(() => this.#closeFile());
  }

  async close(ending: object | undefined): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#soon);
    // A process that was quick is answered for before the disk is asked for anything.
    if (this.#making === undefined) await delay(GATHER_MS);
    await this.flush();
    await this.#attempt(async () => {
      await this.#closeFile();
      if (ending === undefined) return;
      await this.#makeFolder();
      const part = join(this.place.folder, `${END_FILE}.part`);
      await writeFile(part, JSON.stringify(ending), { mode: 0o600 });
      await rename(part, join(this.place.folder, END_FILE));
    });
    this.#spare = undefined;
    this.#gathering = this.#emptyGathering(Buffer.alloc(0));
  }

  async #appendRest(stream: SpoolStream, rest: Uint8Array): Promise<void> {
    let left = rest;
    while (left.length > 0) {
      this.#write();
      await this.#settle();
      left = left.subarray(this.#gather(stream, left));
    }
  }

  /** Waits for the write that is under way, but not for a disk that does not answer. */
  async #settle(): Promise<void> {
    const { promise: stalled, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#fail(new Error("the disk does not answer"));
      resolve();
    }, STALL_MS);
    await Promise.race([this.#writing, stalled]);
    clearTimeout(timer);
  }

  /** Copies what fits; returns how much that was. After a failure everything fits. */
  #gather(stream: SpoolStream, bytes: Uint8Array): number {
    if (this.#failure !== undefined) {
      this.#written[stream] += bytes.length;
      return bytes.length;
    }
    const gathering = this.#gathering;
    const grows = gathering.frameAt !== -1 && gathering.stream === stream;
    const header = grows ? 0 : FRAME_HEADER_BYTES;
    makeRoom(gathering, header + bytes.length);
    const length = Math.min(bytes.length, gathering.buffer.length - gathering.filled - header);
    if (length <= 0) return 0;
    if (!grows) {
      gathering.frameAt = gathering.filled;
      gathering.stream = stream;
      gathering.filled += header;
    }
    gathering.buffer.set(bytes.subarray(0, length), gathering.filled);
    gathering.filled += length;
    const whole = gathering.filled - gathering.frameAt - FRAME_HEADER_BYTES;
    writeFrameHeader(gathering.buffer, gathering.frameAt, { stream, length: whole });
    this.#written[stream] += length;
    return length;
  }

  /** Much is written at once, little a moment later. */
  #plan(): void {
    if (this.#writing !== undefined || this.#gathering.filled === 0) return;
    if (this.#gathering.filled >= EAGER_BYTES) this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), GATHER_MS);
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing !== undefined || this.#gathering.filled === 0) return;
    const full = this.#gathering;
    this.#gathering = this.#emptyGathering(this.#spare ?? Buffer.alloc(0));
    this.#spare = undefined;
    this.#writing = this.#attempt(() => this.#put(full)).finally(() => {
      this.#spare = full.buffer;
      this.#writing = undefined;
      this.#plan();
    });
  }

  #emptyGathering(buffer: Buffer): Gathering {
    return { buffer, filled: 0, frameAt: -1, stream: "stdout", before: { ...this.#written } };
  }

  async #put({ buffer, filled, before }: Gathering): Promise<void> {
    const file = await this.#fileFor(before, filled);
    const data = buffer.subarray(0, filled);
    await file.handle.appendFile(data);
    file.bytes += filled;
    this.#durable = totalOf(this.#gathering.before);
  }

  async #fileFor(before: StreamSizes, bytes: number): Promise<OpenFile> {
    const { fileBytes } = this.#options.limits;
    if (this.#file !== undefined && this.#file.bytes + bytes <= fileBytes) return this.#file;
    await this.#closeFile();
    await this.#makeFolder();
    const room = await this.#options.room(this.place, fileBytes);
    if (room === "none") throw new Error("the disk is nearly full");
    await this.#drop(room);
    const start = totalOf(before);
    const path = join(this.place.folder, segmentName(start));
    const handle = await open(path, "ax", 0o600);
    this.#file = { handle, start, bytes: HEADER_BYTES };
    await handle.appendFile(encodeHeader(before));
    return this.#file;
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    await file.handle.close();
    this.#keep(file);
  }

  /** The first files stay; the others go again from the oldest on. */
  #keep({ start, bytes }: SpoolFile): void {
    const { headBytes } = this.#options.limits;
    const isFirst = this.#segments.length === 0 && this.#gap.start === this.#gap.end;
    if (isFirst && this.#headBytes + bytes <= headBytes) this.#headBytes += bytes;
    else if (start >= this.#gap.end) this.#segments.push({ start, bytes });
  }

  /** Drops the oldest files of the newest part until one more fits. */
  async #drop(room: Room): Promise<void> {
    const { fileBytes, tailBytes } = this.#options.limits;
    let kept = this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
    let mayGrow = room === "free";
    for (;;) {
      const [oldest, next] = this.#segments;
      if (oldest === undefined || (mayGrow && kept + fileBytes <= tailBytes)) return;
      // The newest file stays in any case: it tells how things went.
      if (next === undefined) return;
      this.#segments.shift();
      await this.#remove(oldest.start, next.start);
      kept -= oldest.bytes;
      mayGrow = true;
    }
  }

  async #remove(start: number, next: number): Promise<void> {
    const { folder } = this.place;
    if (this.#gap.start === this.#gap.end) {
      this.#gap = { start, end: start };
      await writeFile(join(folder, headName(start)), "", { mode: 0o600 });
    }
    await rm(join(folder, segmentName(start)), { force: true });
    this.#gap = { start: this.#gap.start, end: next };
  }

  async #makeFolder(): Promise<void> {
    this.#making ??= this.#options.makeFolder(this.place);
    await this.#making;
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    if (this.#failure !== undefined) return;
    try {
      await work();
    } catch (error) {
      this.#fail(error);
      await this.#abandon();
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= { error, position: this.#durable };
  }

  async #abandon(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    try {
      await file?.handle.close();
    } catch {
      // It cannot even be closed: the reason of the failure is known already.
    }
  }
}

/** Grows the buffer up to its limit, so that a process that says little costs little. */
function makeRoom(gathering: Gathering, bytes: number): void {
  const wanted = Math.min(BUFFER_BYTES, gathering.filled + bytes);
  if (gathering.buffer.length >= wanted) return;
  const doubled = Math.max(FIRST_BUFFER_BYTES, gathering.buffer.length * 2, wanted);
  const grown = Buffer.alloc(Math.min(BUFFER_BYTES, doubled));
  gathering.buffer.copy(grown, 0, 0, gathering.filled);
  gathering.buffer = grown;
}
