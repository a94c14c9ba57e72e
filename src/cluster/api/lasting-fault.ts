/** Faults of work that is repeated all the time: what passes by itself is no news, what lasts is. */

import type { Logger } from "../../common/log.ts";

/** An API server that restarts is back by then. */
const PASSING_MS = 10_000;
/** Between two lines about one that lasts. */
const TELL_MS = 60_000;

export interface LastingFault {
  /** Another attempt failed. */
  note(error: unknown): void;
  /** An attempt succeeded. */
  clear(): void;
}

export interface LastingFaultOptions {
  readonly log: Pick<Logger, "debug" | "warn">;
  /** Of its lines: what fails. */
  readonly fields: { readonly op: string; readonly subject: string };
  /** Of the usual times, in tests. */
  readonly graceShare?: number | undefined;
}

export function createLastingFault({
  log,
  fields,
  graceShare = 1,
}: LastingFaultOptions): LastingFault {
  let sinceMs: number | undefined;
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return {
    note(error) {
      const nowMs = performance.now();
      sinceMs ??= nowMs;
      const forMs = Math.round(nowMs - sinceMs);
      const isNews = forMs >= PASSING_MS * graceShare && nowMs - toldAtMs >= TELL_MS * graceShare;
      if (isNews) {
        toldAtMs = nowMs;
        log.warn({ ...fields, forMs, err: error }, "fails all the time, it is retried");
      } else {
        log.debug({ ...fields, forMs, err: error }, "failed, it is retried");
      }
    },
    clear() {
      sinceMs = undefined;
    },
  };
}
