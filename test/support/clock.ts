/** A clock that stands still until a test moves it. */

import type { Clock } from "../../src/common/clock.ts";

export interface TestClock extends Clock {
  /** Moves time and wakes whoever slept long enough. */
  advance(ms: number): void;
  /** How many sleep. */
  readonly sleepers: number;
}

interface Sleeper {
  readonly wakeAtMs: number;
  wake(): void;
}

export function createTestClock(startMs = 1_700_000_000_000): TestClock {
  let nowMs = startMs;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => nowMs,
    get sleepers() {
      return sleepers.size;
    },
    async sleep(ms, signal) {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const sleeper = { wakeAtMs: nowMs + ms, wake: resolve };
      sleepers.add(sleeper);
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      try {
        await promise;
      } finally {
        sleepers.delete(sleeper);
      }
    },
    advance(ms) {
      nowMs += ms;
      for (const sleeper of sleepers) if (sleeper.wakeAtMs <= nowMs) sleeper.wake();
    },
  };
}
