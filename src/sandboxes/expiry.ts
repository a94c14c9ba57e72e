/** One timer for whatever expires next. */

import type { Clock } from "../common/clock.ts";

/** The longest sleep, so that a step of the wall clock is noticed within this time. */
const MAX_SLEEP_MS = 30_000;

export interface Expiry extends AsyncDisposable {
  /** Looks again: something may expire sooner than what is slept for. */
  note(): void;
}

/**
 * Calls `expire` whenever the moment that `next` names has come; `next` is asked again after each
 * call and each `note`, and undefined means that nothing expires. `expire` must make `next` move
 * on before it returns.
 */
export function startExpiry(options: {
  readonly clock: Clock;
  readonly next: () => number | undefined;
  readonly expire: () => void;
}): Expiry {
  const { clock, next, expire } = options;
  const end = new AbortController();
  let waker = new AbortController();

  async function watch(): Promise<void> {
    while (!end.signal.aborted) {
      waker = new AbortController();
      const dueMs = next();
      const waitMs = dueMs === undefined ? MAX_SLEEP_MS : dueMs - clock.now();
      if (waitMs <= 0) {
        expire();
        continue;
      }
      await sleep(clock, Math.min(waitMs, MAX_SLEEP_MS), waker.signal);
    }
  }

  const watching = watch();
  return {
    note: () => waker.abort(),
    async [Symbol.asyncDispose]() {
      end.abort();
      waker.abort();
      await watching;
    },
  };
}

async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    // Being woken is no fault.
    if (!signal.aborted) throw error;
  }
}
