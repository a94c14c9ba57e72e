/** One timer for whatever expires next. */

import { sleepUnlessWoken, type Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";

/** The longest sleep, so that a step of the wall clock is noticed within this time. */
const MAX_SLEEP_MS = 30_000;
/** After a look that failed. */
const FAULT_SLEEP_MS = 1_000;

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
  readonly log: Logger;
  readonly next: () => number | undefined;
  readonly expire: () => void;
}): Expiry {
  const { clock, log, next, expire } = options;
  const end = new AbortController();
  let waker = new AbortController();

  /** Expires what is due and says how long nothing else is. */
  function look(): number {
    const dueMs = next();
    const waitMs = dueMs === undefined ? MAX_SLEEP_MS : dueMs - clock.now();
    if (waitMs <= 0) expire();
    return Math.min(waitMs, MAX_SLEEP_MS);
  }

  async function watch(): Promise<void> {
    while (!end.signal.aborted) {
      waker = new AbortController();
      let waitMs = FAULT_SLEEP_MS;
      try {
        waitMs = look();
      } catch (error) {
        // Without this loop no sandbox would ever end by itself.
        log.error({ op: "sandbox.expire", err: error }, "expiry failed");
      }
      if (waitMs > 0) await sleepUnlessWoken(clock, waitMs, waker.signal);
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
