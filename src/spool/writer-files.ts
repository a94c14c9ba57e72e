/** The files that one writer makes: the first ones stay, the others go from the oldest on. */

import { constants, type BigIntStats } from "node:fs";
import { open, rm, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../common/errors.ts";
import { headName, segmentName, type SpoolLocation } from "./folders.ts";
import type { Extent } from "./reader.ts";
import { encodeHeader, HEADER_BYTES, totalOf, type StreamSizes } from "./segment.ts";

/** How much of a spool is kept. */
export interface SpoolLimits {
  /** Of one file; what is dropped is dropped by whole files. */
  readonly fileBytes: number;
  readonly headBytes: number;
  readonly tailBytes: number;
}

/** Whether a spool may grow, must drop as much as it adds, or must stop. */
export type SpaceGrant = "free" | "tight" | "none";

export interface WriterFilesOptions {
  readonly place: SpoolLocation;
  readonly limits: SpoolLimits;
  /** What is there already when a spool is taken over; absent for a new one. */
  readonly extent?: Extent;
  readonly files?: readonly SpoolFile[];
  /** Called once. Rejects when nothing can be written at all. */
  makeFolder(place: SpoolLocation): Promise<void>;
  /** Asked before each new file. */
  requestSpace(place: SpoolLocation, bytes: number): Promise<SpaceGrant>;
  /** Told of what is written. */
  noteWritten?(place: SpoolLocation, bytes: number): void;
}

/** A file of a spool, by the position of its first byte of output. */
export interface SpoolFile {
  readonly start: number;
  /** On the disk. */
  readonly bytes: number;
}

/** The file that is written now; its handle is closed while it is parked. */
interface CurrentFile {
  readonly start: number;
  bytes: number;
  handle: FileHandle | undefined;
}

export class WriterFiles {
  readonly #options: WriterFilesOptions;
  #gap: Extent["gap"];
  /** Whether the mark behind the first part is on the disk; there is never a second one. */
  #isHeadMarked: boolean;
  #file: CurrentFile | undefined;
  #parkedAs = "";
  #lostFrom: number | undefined;
  #making: Promise<void> | undefined;
  /** The files of the newest part. */
  #tail: SpoolFile[] = [];
  #headBytes = 0;

  constructor(options: WriterFilesOptions) {
    this.#options = options;
    this.#gap = options.extent?.gap ?? { start: 0, end: 0 };
    // A server that is killed between the mark and the removal leaves an empty gap.
    this.#isHeadMarked = this.#gap.end > 0;
    for (const file of options.files ?? []) this.#keep(file);
  }

  get gap(): Extent["gap"] {
    return this.#gap;
  }

  /** Whether the folder was asked for. */
  get isMade(): boolean {
    return this.#making !== undefined;
  }

  async makeFolder(): Promise<void> {
    this.#making ??= this.#options.makeFolder(this.#options.place);
    await this.#making;
  }

  /** Where the file begins that was removed or replaced while it was parked. */
  get lostFrom(): number | undefined {
    return this.#lostFrom;
  }

  /** Appends frames; `before` is how much each stream wrote before them. */
  async append(frames: Buffer, before: StreamSizes): Promise<void> {
    const file = await this.#fileFor(before, frames.length);
    const handle = await this.#handleOf(file);
    await handle.appendFile(frames);
    file.bytes += frames.length;
    this.#options.noteWritten?.(this.#options.place, frames.length);
  }

  /** Closes the file; the next output is appended to it. */
  async park(): Promise<void> {
    const file = this.#file;
    if (file?.handle === undefined) return;
    const { handle } = file;
    file.handle = undefined;
    const facts = await handle.stat({ bigint: true });
    this.#parkedAs = identify(facts);
    await handle.close();
  }

  async close(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    // A parked file is looked at once more: what it held can be lost.
    const handle = await this.#handleOf(file);
    this.#file = undefined;
    await handle.close();
    this.#keep(file);
  }

  /** Lets go of the file after a failure. */
  async abandon(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    try {
      await file?.handle?.close();
    } catch {
      // The failure that led here is the one that is reported.
    }
  }

  /** Opens a parked file again. @throws Error when its name leads to another file, or to none. */
  async #handleOf(file: CurrentFile): Promise<FileHandle> {
    if (file.handle !== undefined) return file.handle;
    const path = join(this.#options.place.folder, segmentName(file.start));
    try {
      file.handle = await open(path, APPEND_FLAGS);
      if (identify(await file.handle.stat({ bigint: true })) === this.#parkedAs) return file.handle;
    } catch (error) {
      if (!isCode(error, ...LOST_CODES)) throw error;
    }
    this.#lostFrom = file.start;
    throw new Error("a file of the spool was removed or replaced");
  }

  async #fileFor(before: StreamSizes, bytes: number): Promise<CurrentFile> {
    const { place, limits } = this.#options;
    if (this.#file !== undefined && this.#file.bytes + bytes <= limits.fileBytes) return this.#file;
    await this.close();
    await this.makeFolder();
    const grant = await this.#options.requestSpace(place, limits.fileBytes);
    if (grant === "none") throw new Error("the disk is nearly full");
    const start = totalOf(before);
    // Else the first parts of many outputs would take what is left of the disk.
    if (grant === "tight" && this.#tail.length === 0 && this.#headBytes > 0) {
      await this.#markHead(start);
    }
    await this.#drop(grant);
    const handle = await open(join(place.folder, segmentName(start)), "ax", 0o600);
    const file = { handle, start, bytes: HEADER_BYTES };
    this.#file = file;
    await handle.appendFile(encodeHeader(before));
    return file;
  }

  #keep({ start, bytes }: SpoolFile): void {
    const isFirst = this.#tail.length === 0 && !this.#isHeadMarked;
    const fits = this.#headBytes + bytes <= this.#options.limits.headBytes;
    if (isFirst && fits) this.#headBytes += bytes;
    else if (start >= this.#gap.end) this.#tail.push({ start, bytes });
  }

  /** Drops the oldest files of the newest part until one more fits. */
  async #drop(grant: SpaceGrant): Promise<void> {
    const { fileBytes, tailBytes } = this.#options.limits;
    let kept = this.#tail.reduce((sum, { bytes }) => sum + bytes, 0);
    let mayGrow = grant === "free";
    for (;;) {
      const [oldest, next] = this.#tail;
      if (oldest === undefined || (mayGrow && kept + fileBytes <= tailBytes)) return;
      // The newest file always stays: it has the last output.
      if (next === undefined) return;
      this.#tail.shift();
      await this.#remove(oldest.start, next.start);
      kept -= oldest.bytes;
      mayGrow = true;
    }
  }

  async #remove(start: number, next: number): Promise<void> {
    const { folder } = this.#options.place;
    await this.#markHead(start);
    await rm(join(folder, segmentName(start)), { force: true });
    this.#gap = { start: this.#gap.start, end: next };
  }

  /** The first part ends there, unless it has ended already. */
  async #markHead(end: number): Promise<void> {
    if (this.#isHeadMarked) return;
    this.#gap = { start: end, end };
    await writeFile(join(this.#options.place.folder, headName(end)), "", { mode: 0o600 });
    this.#isHeadMarked = true;
  }
}

/** Never creates a file, never follows a link that took the place of one. */
const APPEND_FLAGS = constants.O_WRONLY | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0);
/** Removed, replaced by a link or a folder, or its own folder is gone. */
const LOST_CODES: ReadonlySet<string> = new Set(["ENOENT", "ELOOP", "ENOTDIR", "EISDIR"]);

/** Which file it is, and how long. */
function identify({ dev, ino, size }: BigIntStats): string {
  return `${dev}:${ino}:${size}`;
}
