/**
 * Writing a spool. Output is gathered in one buffer while another one is written, so little output
 * costs few writes, and an appender that is faster than the disk waits. A failure of the disk ends
 * the writing, never the process whose output it is.
 */

import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { END_FILE, type SpoolLocation } from "./folders.ts";
import type { Extent } from "./reader.ts";
import { totalOf, type SpoolStream, type StreamSizes } from "./segment.ts";
import { WriteBuffer } from "./write-buffer.ts";
import { WriterFiles, type WriterFilesOptions } from "./writer-files.ts";

/** With this much gathered, a write begins at once. */
const EAGER_BYTES = 32 * 1024;
/** How long less output, and the folder, wait for more; a killed server loses as much. */
const GATHER_MS = 20;
/** A write that takes longer counts as failed. */
const STALL_MS = 5_000;
/** In so many parts: a process that is stopped, or gets no processor, has lost one of them. */
const STALL_PARTS = 10;
/** After this long without output the file is closed: descriptors are for spools in use. */
const IDLE_MS = 2_000;

interface Failure {
  readonly error: unknown;
  /** From here on nothing is on the disk. */
  readonly position: number;
}

/** A writer for one spool; its folder is made after `GATHER_MS`, or at the first write. */
export class SpoolWriter {
  readonly place: SpoolLocation;
  readonly #files: WriterFiles;
  readonly #written: StreamSizes;
  #buffer: WriteBuffer;
  #spareMemory: Buffer | undefined;
  #announceTimer: NodeJS.Timeout | undefined;
  #announced: Promise<void> | undefined;
  /** Everything before this position is on the disk, as far as it is kept. */
  #durable: number;
  #failure: Failure | undefined;
  #writing: Promise<void> | undefined;
  #writeTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isStalled = false;

  constructor(options: WriterFilesOptions) {
    this.place = options.place;
    this.#files = new WriterFiles(options);
    this.#written = { stdout: 0, stderr: 0, note: 0, ...options.extent?.written };
    this.#buffer = new WriteBuffer(this.#written);
    this.#durable = this.end;
    this.#announceTimer = setTimeout(() => void this.announced, GATHER_MS);
  }

  /** Makes the folder now; resolves when other servers can find the spool, or never will. */
  get announced(): Promise<void> {
    clearTimeout(this.#announceTimer);
    this.#announced ??= this.#attempt(() => this.#files.makeFolder());
    return this.#announced;
  }

  /** Position behind the last byte that was appended. */
  get end(): number {
    return totalOf(this.#written);
  }

  /** What was written and is no longer kept. */
  get gap(): Extent["gap"] {
    return this.#files.gap;
  }

  /** Why nothing is written any more; undefined while writing succeeds. */
  get failure(): Failure | undefined {
    return this.#failure;
  }

  /** Takes bytes; the promise, when there is one, must be awaited before more come. */
  append(stream: SpoolStream, bytes: Uint8Array): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    const taken = this.#gather(stream, bytes);
    this.#plan();
    return taken === bytes.length ? undefined : this.#appendRest(stream, bytes.subarray(taken));
  }

  /** Resolves when everything appended so far is on the disk or lost. */
  async flush(): Promise<void> {
    for (;;) {
      this.#write();
      if (this.#writing === undefined || this.#failure !== undefined) return;
      await this.#waitForWrite();
    }
  }

  /** Writes the rest and closes the file; more output opens it again. */
  async park(): Promise<void> {
    await this.flush();
    if (this.#writing === undefined) this.#rest();
    await this.#writing;
  }

  /** Writes the rest and, if given, how it ended; then nothing can be appended any more. */
  async close(ending: object | undefined): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#announceTimer);
    clearTimeout(this.#idleTimer);
    // The reply about a short process goes out before the disk is used.
    if (!this.#files.isMade) await delay(GATHER_MS);
    await this.flush();
    await this.#attempt(() => this.#files.close());
    const ended = ending && this.#writeEnding(ending);
    if (!this.#isStalled) await ended;
    this.#spareMemory = undefined;
    this.#buffer = new WriteBuffer(this.#written);
  }

  /**
   * Also after a failure: a reader learns how much is missing, where the disk takes so little. On a
   * disk that does not answer, once it has done what it was given before. Never rejects.
   */
  async #writeEnding(ending: object): Promise<void> {
    await this.#writing;
    const missing = this.#failure === undefined ? {} : { totalBytes: this.end };
    try {
      await this.#files.makeFolder();
      const part = join(this.place.folder, `${END_FILE}.part`);
      await writeFile(part, JSON.stringify({ ...missing, ...ending }), { mode: 0o600 });
      await rename(part, join(this.place.folder, END_FILE));
    } catch (error) {
      this.#fail(error);
    }
  }

  async #appendRest(stream: SpoolStream, rest: Uint8Array): Promise<void> {
    let left = rest;
    while (left.length > 0) {
      this.#write();
      await this.#waitForWrite();
      left = left.subarray(this.#gather(stream, left));
    }
  }

  /** Waits for the current write, but not for a disk that does not answer. */
  async #waitForWrite(): Promise<void> {
    const { promise: stalled, resolve } = Promise.withResolvers<void>();
    let parts = 0;
    const timer = setInterval(() => {
      parts += 1;
      if (parts < STALL_PARTS) return;
      this.#isStalled = true;
      this.#fail(new Error("the disk does not answer"));
      resolve();
    }, STALL_MS / STALL_PARTS);
    await Promise.race([this.#writing, stalled]);
    clearInterval(timer);
  }

  /** Copies what fits; returns how much that was. After a failure everything is dropped. */
  #gather(stream: SpoolStream, bytes: Uint8Array): number {
    const taken = this.#failure === undefined ? this.#buffer.append(stream, bytes) : bytes.length;
    this.#written[stream] += taken;
    return taken;
  }

  /** Much is written at once, little after `GATHER_MS`. */
  #plan(): void {
    if (this.#writing !== undefined || this.#buffer.length === 0) return;
    if (this.#buffer.length >= EAGER_BYTES) this.#write();
    else this.#writeTimer ??= setTimeout(() => this.#write(), GATHER_MS);
  }

  #write(): void {
    clearTimeout(this.#writeTimer);
    this.#writeTimer = undefined;
    if (this.#writing !== undefined || this.#buffer.length === 0) return;
    clearTimeout(this.#idleTimer);
    const full = this.#buffer;
    this.#buffer = new WriteBuffer(this.#written, this.#spareMemory);
    this.#spareMemory = undefined;
    const end = this.end;
    const write = async () => {
      await this.#files.append(full.data, full.before);
      this.#durable = end;
    };
    this.#writing = this.#attempt(write).finally(() => {
      this.#spareMemory = full.memory;
      this.#writing = undefined;
      this.#plan();
      this.#planRest();
    });
  }

  #planRest(): void {
    clearTimeout(this.#idleTimer);
    if (this.#isClosed || this.#failure !== undefined) return;
    this.#idleTimer = setTimeout(() => this.#rest(), IDLE_MS).unref();
  }

  /** Closes the file and frees the memory until there is more output. */
  #rest(): void {
    if (this.#writing !== undefined || this.#buffer.length > 0) return;
    clearTimeout(this.#idleTimer);
    this.#spareMemory = undefined;
    this.#writing = this.#attempt(() => this.#files.park()).finally(() => {
      this.#writing = undefined;
      this.#plan();
    });
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    if (this.#failure !== undefined) return;
    try {
      await work();
    } catch (error) {
      this.#fail(error);
    }
    // Also after work that a stalled disk did at last.
    if (this.#failure !== undefined) await this.#files.abandon();
  }

  #fail(error: unknown): void {
    const position = Math.min(this.#durable, this.#files.lostFrom ?? this.#durable);
    this.#failure ??= { error, position };
  }
}
