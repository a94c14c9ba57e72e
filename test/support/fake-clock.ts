/** A clock that stands still until a test moves it. */

import type { Clock } from "../../src/common/clock.ts";

interface Sleeper {
  readonly atMs: number;
  wake(): void;
}

export interface FakeClock extends Clock {
  /**
   * Sets the wall clock; no time passes.
   * @throws RangeError for a part of a millisecond, which no wall clock shows and no table keeps.
   */
  set(nowMs: number): void;
  /** Moves time on and lets everything that was due run. */
  advance(ms: number): Promise<void>;
  /** Whether somebody sleeps for exactly so long from now. */
  isAwaited(ms: number): boolean;
}

/** Lets everything run that waits for nothing but its turn. */
async function settle(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setImmediate(resolve);
  await promise;
}

/** A clock that starts at an arbitrary moment. */
export function createFakeClock(startMs = 1_000_000): FakeClock {
  /** What the wall clock shows beyond the time that has passed since the start. */
  let offsetMs = startMs;
  let nowMs = 0;
  let sleepers: readonly Sleeper[] = [];

  return {
    now: () => offsetMs + nowMs,
    elapsed: () => nowMs,
    set(wantedMs) {
      if (!Number.isSafeInteger(wantedMs))
        throw new RangeError(`no whole millisecond: ${wantedMs}`);
      offsetMs = wantedMs - nowMs;
    },
    async sleep(ms, signal) {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper = { atMs: nowMs + ms, wake: resolve };
      sleepers = [...sleepers, sleeper];
      const abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      try {
        await promise;
      } finally {
        signal.removeEventListener("abort", abort);
        sleepers = sleepers.filter((other) => other !== sleeper);
      }
    },
    isAwaited: (ms) => sleepers.some(({ atMs }) => atMs === nowMs + ms),
    async advance(ms) {
      const targetMs = nowMs + ms;
      await settle();
      for (;;) {
        const [next] = sleepers
          .filter(({ atMs }) => atMs <= targetMs)
          .toSorted((left, right) => left.atMs - right.atMs);
        if (next === undefined) break;
        nowMs = Math.max(nowMs, next.atMs);
        sleepers = sleepers.filter((other) => other !== next);
        next.wake();
        // What wakes up may sleep again before the target.
        await settle();
      }
      nowMs = targetMs;
      await settle();
    },
  };
}
