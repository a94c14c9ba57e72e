/**
 * One process, many readers. Each reader has a bounded queue; the source is held back for a moment
 * when a reader is full, for long only when all are. Who cannot keep up is cut off with an error,
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
  subscribe(): Subscription<T>;
  /** Gives an event to every reader; without readers it is dropped. */
  publish(event: T, bytes: number): void;
  /** Gives a last event to every reader and ends them all. */
  finish(last: T): void;
}

/** A reader's queue is full at this size; it may be passed by what was on its way already. */
const QUEUE_BYTES = 1_048_576;
/** The source runs on when a full queue has shrunk to this. */
const RESUME_BYTES = QUEUE_BYTES / 2;
/** Small events cost their administration too. */
const EVENT_BYTES = 64;
/** A reader that takes nothing at all for this long is given up, even if it is the only one. */
const STALL_LIMIT_MS = 30_000;
/** How long others wait for a reader that is full; long enough for a busy machine. */
const LAGGARD_LIMIT_MS = 1_000;
const CHECK_INTERVAL_MS = 250;

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

  /** Brings the source and the readers' marks in line with how full the queues are. */
  function balance(): void {
    for (const reader of readers) markFull(reader, now());
    const isFull = [...readers].some((reader) => reader.fullSinceMs !== undefined);
    if (isFull === isPaused) return;
    isPaused = isFull;
    if (isFull) {
      source.pause();
      timer = setInterval(cutLaggards, CHECK_INTERVAL_MS);
    } else {
      clearInterval(timer);
      source.resume();
    }
  }

  function cutLaggards(): void {
    const full = [...readers].filter((reader) => reader.fullSinceMs !== undefined);
    const isAnyFree = full.length < readers.size;
    for (const reader of full) {
      const since = isAnyFree ? (reader.fullSinceMs ?? now()) : reader.takenAtMs;
      const limitMs = isAnyFree ? LAGGARD_LIMIT_MS : STALL_LIMIT_MS;
      if (now() - since < limitMs) continue;
      readers.delete(reader);
      reader.subscription.events.fail(
        new SandboxError("resource_exhausted", "reader does not keep up with the output", {
          hint: "Read faster, or redirect the output to a file and read that.",
        }),
      );
    }
    balance();
  }

  return {
    get isPaused() {
      return isPaused;
    },
    subscribe() {
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

function markFull(reader: Reader<unknown>, nowMs: number): void {
  const { bytes } = reader.subscription.events;
  if (bytes >= QUEUE_BYTES) reader.fullSinceMs ??= nowMs;
  else if (bytes <= RESUME_BYTES) reader.fullSinceMs = undefined;
}
