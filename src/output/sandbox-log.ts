/** The log of one sandbox: the output of its processes as one text, on the disk or in memory. */

import type { OutputStream } from "../client/process.ts";
import { incompleteTail } from "../common/characters.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { LogSpool, type LogOptions } from "./log-spool.ts";
import { joinTexts, textOfBytes, type LogText } from "./log-text.ts";
import { ByteRing } from "./output-buffer.ts";
import { toNote, withoutNotes } from "./quote.ts";
import { formatBytes } from "./text.ts";

/** Output beyond this that waits for the disk is dropped, with a mark. */
const LOG_BYTES = 256 * 1024;
/** Between two writes: bounds the disk traffic of a flood, and what a killed server loses. */
const WRITE_INTERVAL_MS = 200;

export class SandboxLog {
  readonly sandboxId: string;
  changedAtMs: number;
  /** The same moment by the clock of durations, which tells what changed later. */
  changedAtElapsedMs: number;
  /** Undefined while the sandbox lives. */
  endedAtMs: number | undefined;
  /** The same moment by the clock of durations, which tells how long the log is kept. */
  endedAtElapsedMs = 0;
  readonly #options: LogOptions;
  readonly #spool: LogSpool;
  /** What is not on the disk yet, or all that is kept where there is no disk. */
  #ring = new ByteRing(LOG_BYTES);
  /** By source: the bytes of an incomplete character at the end of its output. */
  readonly #held = new Map<string, Buffer>();
  /** Process and stream of the last output; another source begins with a line that names it. */
  #source = "";
  /** The position in the ring up to which all is on the disk, or dropped with a mark there. */
  #written = 0;
  /** How much the disk had taken and lost again, which the next mark counts. */
  #lostBytes = 0;
  #isInMemory = false;
  #isUsed = false;
  #writing: Promise<unknown>;
  #timer: NodeJS.Timeout | undefined;

  /** @param before what must be over before anything is written. */
  constructor(sandboxId: string, options: LogOptions, before = Promise.resolve()) {
    this.sandboxId = sandboxId;
    this.#options = options;
    this.#spool = new LogSpool(sandboxId, options);
    this.#writing = before;
    this.changedAtMs = options.clock.now();
    this.changedAtElapsedMs = options.clock.elapsed();
  }

  get sizeBytes(): number {
    const kept = this.#ring.end - Math.max(this.#written, this.#ring.start);
    return this.#spool.sizeBytes + kept;
  }

  /** Appends output of a process; returns whether the log grew. */
  output(processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }): boolean {
    const source = `${processId} ${chunk.stream}`;
    const held = this.#held.get(source);
    const bytes = held === undefined ? chunk.bytes : Buffer.concat([held, chunk.bytes]);
    // Output of another source can arrive between the bytes of a character.
    const open = incompleteTail(bytes);
    if (open > 0) this.#held.set(source, Buffer.from(bytes.subarray(bytes.length - open)));
    else if (held !== undefined) this.#held.delete(source);
    if (bytes.length === open) return false;
    this.#append(source, bytes.subarray(0, bytes.length - open));
    this.#changed();
    return true;
  }

  /** Appends a line about a process, behind all of its output: no stream goes on after it. */
  note(processId: string, event: string): void {
    for (const source of [`${processId} stdout`, `${processId} stderr`]) {
      const held = this.#held.get(source);
      if (held !== undefined) this.#append(source, held);
      this.#held.delete(source);
    }
    this.#source = "";
    this.#ring.append(toNote(`${processId} ${quoteUntrusted(event)}`));
    this.#changed();
  }

  /** The text of the log; undefined while nothing was appended. */
  async text(): Promise<LogText | undefined> {
    if (!this.#isUsed) return undefined;
    await this.write();
    return this.#enqueue(async () => {
      const stored = await this.#spool.text();
      return this.#isInMemory
        ? this.#recent()
        : joinTexts([...(stored ? [stored] : []), this.#rest()]);
    });
  }

  /** Writes what is not on the disk yet. Never rejects. */
  write(): Promise<void> {
    return this.#enqueue(async () => {
      try {
        await this.#writeNext();
      } catch (error) {
        this.#options.log.debug({ op: "log.write", sandboxId: this.sandboxId, err: error });
      }
      // What the disk did not take is tried again.
      if (!this.#isInMemory && this.#written < this.#ring.end) this.#plan();
    });
  }

  /** Writes the rest and releases the spool; without an end another server can take it over. */
  async close(endedAtMs: number | undefined): Promise<void> {
    await this.write();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const unwrittenBytes = this.#ring.end - this.#written + this.#lostBytes;
    await this.#enqueue(() => this.#spool.close(endedAtMs, unwrittenBytes));
  }

  /** Work on the disk, one after another. */
  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#writing.then(work);
    this.#writing = result.catch(() => undefined);
    return result;
  }

  #append(source: string, bytes: Uint8Array): void {
    if (this.#source !== source) this.#ring.append(toNote(source));
    this.#source = source;
    this.#ring.append(withoutNotes(bytes));
  }

  #changed(): void {
    this.#isUsed = true;
    this.changedAtMs = this.#options.clock.now();
    this.changedAtElapsedMs = this.#options.clock.elapsed();
    this.#plan();
  }

  #plan(): void {
    // `write` never rejects.
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.write();
    }, WRITE_INTERVAL_MS).unref();
  }

  async #writeNext(): Promise<void> {
    const ring = this.#ring;
    if (this.#isInMemory || this.#written === ring.end) return;
    const { note, from } = this.#next();
    const added = await this.#spool.write(note, ring.slice(from, ring.end));
    if (added === undefined) this.#isInMemory = true;
    else if (added < 0) this.#lostBytes -= added;
    else if (added >= note.length) {
      this.#lostBytes = 0;
      this.#written = from + added - note.length;
    }
    if (this.#isInMemory || this.#written < ring.end) return;
    // The memory of a log is free while nothing waits for the disk.
    this.#ring = new ByteRing(LOG_BYTES);
    this.#written = 0;
  }

  /** Where the text that is not on the disk begins, and the note about what is missing before. */
  #next(): { readonly note: Buffer; readonly from: number } {
    const from = Math.max(this.#written, this.#ring.start);
    const dropped = from - this.#written + this.#lostBytes;
    return { from, note: dropped > 0 ? toNote(droppedText(dropped)) : Buffer.alloc(0) };
  }

  /** The text that is not on the disk, as it will be there. */
  #rest(): LogText {
    const { note, from } = this.#next();
    return textOfBytes(Buffer.concat([note, this.#ring.slice(from, this.#ring.end)]));
  }

  /** The text of a log that is in memory alone. */
  #recent(): LogText {
    const ring = this.#ring;
    return {
      end: ring.end,
      read: async (from, maxBytes) => {
        const start = Math.min(Math.max(from, ring.start), ring.end);
        return { start, bytes: ring.slice(start, Math.min(ring.end, start + maxBytes)) };
      },
    };
  }
}

function droppedText(bytes: number): string {
  return `[… ${formatBytes(bytes)} dropped here; get_process_output reads one process whole …]`;
}
