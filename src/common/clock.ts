/** Time: the clock as an argument, so that a test can move it, and deadlines. */

import { setTimeout as delay } from "node:timers/promises";

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds since some moment, for durations: a change of the wall clock does not move them. */
  elapsed(): number;
  /** Resolves after `ms`; rejects with AbortError when the signal fires first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The machine's own clock. Its timers keep no process alive. */
export function createSystemClock(): Clock {
  return {
    now: () => Date.now(),
    elapsed: () => performance.now(),
    sleep: (ms, signal) => delay(ms, undefined, { signal, ref: false }),
  };
}

/**
 * Whether a moment of the wall clock is so far away, in either direction: the time of a file lies in the
 * future once a clock that was ahead is set back, and the file would be young until then.
 */
export function isFarAway(atMs: number, ms: number): boolean {
  return Math.abs(Date.now() - atMs) >= ms;
}

/** Resolves after `ms`, or when the signal fires. */
export async function sleepUnlessWoken(
  clock: Pick<Clock, "sleep">,
  ms: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Yields each time that `ms` have passed, until the signal fires. */
export async function* everyInterval(
  clock: Pick<Clock, "sleep">,
  ms: number,
  signal: AbortSignal,
): AsyncGenerator<void, void> {
  for (;;) {
    await sleepUnlessWoken(clock, ms, signal);
    if (signal.aborted) return;
    yield;
  }
}

/** Resolves with the promise, or rejects with `makeError()` when `ms` pass first. */
export async function withDeadline<T>(
  promise: Promise<T>,
  ms: number,
  makeError: () => Error,
): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(makeError()), ms);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for a promise that never rejects, or until `ms` have passed. */
export async function waitAtMost(promise: Promise<unknown>, ms: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
