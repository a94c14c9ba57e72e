/**
 * One process, many readers. Each reader has a bounded queue; the source is held back for a blink
 * when a reader is full, for longer only when all are. Who cannot keep up is cut off with an error,
 * never fed with gaps.
 */

import { SandboxError } from "../../common/errors.ts";
import { EventQueue } from "../queue.ts";

/** The thing that is read: held back and let go as its readers demand. */
export interface Source {
  pause(): void;
  resume(): void;
}

/** One reader's queue; closing it, even twice, ends the subscription. */
export interface Subscription<T> {
  readonly events: EventQueue<T>;
  close(): void;
}

export interface FanOut<T> {
  readonly isPaused: boolean;
  /** @throws SandboxError resource_exhausted */
  subscribe(): Subscription<T>;
  /** Gives an event to every reader; without readers it is dropped. */
  publish(event: T, bytes: number): void;
  /** Gives a last event to every reader and ends them all. */
  finish(last: T): void;
}

/** Each costs a connection and at worst a queue. */
const MAX_READERS = 256;
/** A reader's queue is full at this size. */
const QUEUE_BYTES = 1_048_576;
/** A full queue counts as read again when it has shrunk to this. */
const RESUME_BYTES = QUEUE_BYTES / 2;
/** A reader that is this far behind the others is cut at once. Readers share what they wait for. */
const MAX_LAG_BYTES = 4 * QUEUE_BYTES;
/** Small events cost their administration too. */
const EVENT_BYTES = 64;
/** A reader that takes nothing at all for this long is given up, even if it is the only one. */
const STALL_LIMIT_MS = 30_000;
/** A reader that has been full for this long while others were not is cut. */
const LAGGARD_LIMIT_MS = 1_000;
/** The source waits this long for a full reader at each event: nobody else notices. */
const HOLD_MS = 5;

interface Reader<T> {
  readonly subscription: Subscription<T>;
  fullSinceMs: number | undefined;
  takenAtMs: number;
}

/** A fan-out without readers. `now` gives monotonic milliseconds. */
export function createFanOut<T>(source: Source, now: () => number): FanOut<T> {
  const readers = new Set<Reader<T>>();
  let isPaused = false;
  let timer: NodeJS.Timeout | undefined;

  /** Holds the source while a reader is full, or lets it go. */
  function balance(): void {
    for (const reader of readers) markFull(reader, now());
    if (countFull(readers) === 0) release();
    else if (!isPaused) {
      isPaused = true;
      source.pause();
      timer = setInterval(reconsider, HOLD_MS);
    }
  }

  function release(): void {
    if (!isPaused) return;
    isPaused = false;
    clearInterval(timer);
    source.resume();
  }

  /** Whoever keeps up goes on, and with it the source; the next event holds it again. */
  function reconsider(): void {
    const isAnyFree = countFull(readers) < readers.size;
    for (const reader of readers) {
      if (!isHopeless(reader, { isAnyFree, nowMs: now() })) continue;
      readers.delete(reader);
      cut(reader);
    }
    if (countFull(readers) < readers.size || readers.size === 0) release();
  }

  return {
    get isPaused() {
      return isPaused;
    },
    subscribe() {
      if (readers.size >= MAX_READERS) {
        throw new SandboxError("resource_exhausted", `more than ${MAX_READERS} readers`);
      }
      const events = new EventQueue<T>(() => {
        reader.takenAtMs = now();
        if (isPaused) balance();
      });
      const subscription: Subscription<T> = {
        events,
        close() {
          readers.delete(reader);
          events.end();
          balance();
        },
      };
      const reader: Reader<T> = { subscription, fullSinceMs: undefined, takenAtMs: now() };
      readers.add(reader);
      return subscription;
    },
    publish(event, bytes) {
      for (const { subscription } of readers) subscription.events.push(event, bytes + EVENT_BYTES);
      balance();
    },
    finish(last) {
      clearInterval(timer);
      for (const { subscription } of readers) {
        subscription.events.push(last, EVENT_BYTES);
        subscription.events.end();
      }
      readers.clear();
    },
  };
}

function countFull(readers: ReadonlySet<Reader<unknown>>): number {
  return [...readers].filter((reader) => reader.fullSinceMs !== undefined).length;
}

function isHopeless(
  reader: Reader<unknown>,
  { isAnyFree, nowMs }: { readonly isAnyFree: boolean; readonly nowMs: number },
): boolean {
  if (reader.fullSinceMs === undefined) return false;
  if (!isAnyFree) return nowMs - reader.takenAtMs >= STALL_LIMIT_MS;
  if (reader.subscription.events.bytes >= MAX_LAG_BYTES) return true;
  return nowMs - reader.fullSinceMs >= LAGGARD_LIMIT_MS;
}

function cut({ subscription }: Reader<unknown>): void {
  subscription.events.fail(
    new SandboxError("resource_exhausted", "reader does not keep up with the output", {
      hint: "Read faster, or redirect the output to a file and read that.",
    }),
  );
}

function markFull(reader: Reader<unknown>, nowMs: number): void {
  const { bytes } = reader.subscription.events;
  if (bytes >= QUEUE_BYTES) reader.fullSinceMs ??= nowMs;
  else if (bytes <= RESUME_BYTES) reader.fullSinceMs = undefined;
}
