/**
 * One process, many readers, one copy of what they wait for. The source is held back while all of
 * them are full. A full reader holds the others only as long as it makes progress, and not for
 * long; then it is cut off with an error, never fed with gaps.
 */

import { SandboxError } from "../../common/errors.ts";
import type { Codec } from "../../rpc/process-events.ts";
import type { OutputBudget } from "./output-budget.ts";
import { releaseBuffer } from "./release-buffer.ts";
import { SharedQueue, type Place } from "./shared-queue.ts";

/** The thing that is read: held back and let go as its readers demand. */
export interface Source {
  pause(): void;
  resume(): void;
}

export interface FanOutOptions<T> {
  readonly source: Source;
  readonly budget: OutputBudget;
  /** An event as the bytes that readers of a codec get; made once for all of them. */
  encode(event: T, codec: Codec): Buffer;
  /** Monotonic milliseconds. */
  now(): number;
}

/** What one reader has to come. */
export interface Subscription {
  /** The next bytes, empty when none wait. @throws SandboxError resource_exhausted when cut off */
  take(): readonly Buffer[];
  /** Frees what was taken: the connection has it all. */
  release(taken: readonly Buffer[]): void;
  /** Whether nothing follows any more on what waits. */
  readonly hasEnded: boolean;
  /** Whether nothing waits, and nothing will. */
  readonly isDone: boolean;
  /** Resolves to true at the next change, to false when time is up. */
  changed(waitMs: number): Promise<boolean>;
  /** Runs when the reader is cut off, however busy it is with what it took. */
  onCut(listener: (error: SandboxError) => void): void;
  /** Ends the subscription; a second time it does nothing. */
  close(): void;
}

export interface FanOut<T> {
  readonly isPaused: boolean;
  /** @throws SandboxError resource_exhausted */
  subscribe(codec: Codec): Subscription;
  /** Gives an event to every reader; without readers it is dropped. */
  publish(event: T): void;
  /** Gives a last event to every reader. */
  finish(last: T): void;
}

/** Each costs a connection. */
const MAX_READERS = 256;
/** A reader gets so much at a time, which is then between it and the kernel. */
const TAKE_BYTES = 65_536;
/** Small events cost their administration too. */
const EVENT_BYTES = 64;
/** A reader that takes nothing at all for this long is given up, even if it is the only one. */
const STALL_LIMIT_MS = 30_000;
/** A full reader that takes nothing for this long, while others are not full, is cut. */
const HOLD_MS = 40;
/** A full reader that makes progress, while others are not full, is cut after this. */
const LAGGARD_LIMIT_MS = 250;

type Frames = Partial<Record<Codec, Buffer>>;

interface Reader {
  readonly codec: Codec;
  readonly place: Place;
  takenAtMs: number;
  fullSinceMs: number;
  failure?: SandboxError;
  wake?: (() => void) | undefined;
  onCut?: (error: SandboxError) => void;
}

/** How often readers are judged while the source waits for some of them, and while for all. */
const TICK_MS = 10;
const LONG_TICK_MS = 1_000;

/** A fan-out without readers. */
export function createFanOut<T>(options: FanOutOptions<T>): FanOut<T> {
  return new Branches(options);
}

class Branches<T> implements FanOut<T> {
  readonly #options: FanOutOptions<T>;
  readonly #queue = new SharedQueue<Frames>();
  readonly #readers = new Set<Reader>();
  /** Those that the source waits for; in the end, all who have something left to take. */
  readonly #full = new Set<Reader>();
  /** What was encoded for one reader alone: no other has it or will get it. */
  readonly #sole = new WeakSet<Buffer>();
  #isPaused = false;
  #hasEnded = false;
  #heldBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #tickMs = 0;

  constructor(options: FanOutOptions<T>) {
    this.#options = options;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  subscribe(codec: Codec): Subscription {
    if (this.#readers.size >= MAX_READERS) {
      throw new SandboxError("resource_exhausted", `more than ${MAX_READERS} readers`);
    }
    const place = this.#queue.join();
    const reader: Reader = { codec, place, takenAtMs: this.#options.now(), fullSinceMs: 0 };
    this.#readers.add(reader);
    // A queue that was full all alone keeps a writer waiting from now on.
    this.#settle();
    const isOver = () => this.#hasEnded || !this.#readers.has(reader);
    return {
      get hasEnded() {
        return isOver();
      },
      get isDone() {
        return isOver() && reader.place.bytes === 0;
      },
      take: () => this.#take(reader),
      release: (taken) => {
        for (const frame of taken) if (this.#sole.delete(frame)) releaseBuffer(frame);
      },
      changed: async (waitMs) => changed(reader, waitMs),
      onCut(listener) {
        reader.onCut = listener;
      },
      close: () => {
        this.#remove(reader);
        reader.wake?.();
      },
    };
  }

  publish(event: T): void {
    if (this.#readers.size === 0 || this.#hasEnded) return;
    this.#push(event);
    const { windowBytes } = this.#options.budget;
    for (const reader of this.#readers) {
      if (reader.place.bytes >= windowBytes && !this.#full.has(reader)) {
        reader.fullSinceMs = this.#options.now();
        this.#full.add(reader);
      }
      reader.wake?.();
    }
    this.#settle();
  }

  finish(last: T): void {
    if (this.#hasEnded) return;
    this.#push(last);
    this.#hasEnded = true;
    for (const reader of this.#readers) {
      reader.takenAtMs = this.#options.now();
      this.#full.add(reader);
      reader.wake?.();
    }
    this.#settle();
  }

  #push(event: T): void {
    const frames: Frames = {};
    for (const { codec } of this.#readers) frames[codec] ??= this.#options.encode(event, codec);
    if (this.#readers.size === 1) {
      for (const frame of Object.values(frames)) this.#sole.add(frame);
    }
    const bytes = Object.values(frames).reduce((sum, frame) => sum + frame.length, EVENT_BYTES);
    this.#queue.push(frames, bytes);
  }

  #take(reader: Reader): readonly Buffer[] {
    if (reader.failure !== undefined) throw reader.failure;
    const taken = this.#queue.take(reader.place, TAKE_BYTES);
    if (taken.length === 0) return [];
    reader.takenAtMs = this.#options.now();
    // Half empty, not just below full: the source is not to stop and go at each event.
    const isFull = reader.place.bytes > this.#options.budget.windowBytes / 2;
    if (!isFull && !this.#hasEnded) this.#full.delete(reader);
    this.#settle();
    return taken.flatMap((frames) => frames[reader.codec] ?? []);
  }

  #remove(reader: Reader): void {
    this.#readers.delete(reader);
    this.#full.delete(reader);
    this.#queue.leave(reader.place);
    this.#settle();
  }

  /** Brings source, budget and timer in line with who is full. */
  #settle(): void {
    this.#options.budget.add(this.#queue.bytes - this.#heldBytes);
    this.#heldBytes = this.#queue.bytes;
    const isPaused = this.#full.size > 0 && !this.#hasEnded;
    if (isPaused !== this.#isPaused) {
      this.#isPaused = isPaused;
      if (isPaused) this.#options.source.pause();
      else this.#options.source.resume();
    }
    if (this.#full.size > 0) this.#arm();
    else this.#disarm();
  }

  #arm(): void {
    const tickMs = this.#isAnyFree() ? TICK_MS : LONG_TICK_MS;
    if (this.#timer !== undefined && this.#tickMs <= tickMs) return;
    this.#disarm();
    this.#tickMs = tickMs;
    this.#timer = setTimeout(() => {
      // After a halt of the daemon itself, whatever is ready to be taken is taken first.
      setImmediate(() => this.#judge());
    }, tickMs);
  }

  #disarm(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #isAnyFree(): boolean {
    return this.#full.size < this.#readers.size && !this.#hasEnded;
  }

  #judge(): void {
    this.#timer = undefined;
    const nowMs = this.#options.now();
    for (const reader of this.#full) {
      if (isHopeless(reader, { isAnyFree: this.#isAnyFree(), nowMs })) this.#cut(reader);
    }
    this.#settle();
  }

  #cut(reader: Reader): void {
    const message = "reader does not keep up with the output";
    const hint = "Read faster, or redirect the output to a file and read that.";
    reader.failure = new SandboxError("resource_exhausted", message, { hint });
    this.#remove(reader);
    reader.onCut?.(reader.failure);
    reader.wake?.();
  }
}

function isHopeless(
  reader: Reader,
  { isAnyFree, nowMs }: { readonly isAnyFree: boolean; readonly nowMs: number },
): boolean {
  const idleMs = nowMs - reader.takenAtMs;
  if (!isAnyFree) return idleMs >= STALL_LIMIT_MS;
  return idleMs >= HOLD_MS || nowMs - reader.fullSinceMs >= LAGGARD_LIMIT_MS;
}

async function changed(reader: Reader, waitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), waitMs);
  reader.wake = () => resolve(true);
  const isChanged = await promise;
  clearTimeout(timer);
  reader.wake = undefined;
  return isChanged;
}
