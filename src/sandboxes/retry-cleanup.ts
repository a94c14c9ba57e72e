/** Retries failed cleanup until it succeeds or the registry closes. */

import { createBackoff } from "../common/backoff.ts";
import type { Clock } from "../common/clock.ts";
import type { Track } from "../common/concurrency.ts";
import type { Logger } from "../common/log.ts";
import { asChange } from "../common/operation.ts";

/** Waits between attempts grow from the first to the last; a full disk may stay full for hours. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

/** Clean-up to do; the signal fires when the registry closes, and may end it half way. */
type CleanUp = (signal: AbortSignal) => Promise<void>;

export interface CleanupRetries {
  retry(subject: string, work: CleanUp): void;
  /** The same, first tried at once: its caller goes on meanwhile. */
  cleanUpLater(subject: string, work: CleanUp): void;
}

/** Cleans up after a change that counts already; a failure is retried in the background. */
export async function cleanUpOrRetry(
  context: Pick<CleanupRetries, "retry"> & { readonly log: Logger },
  subject: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    context.log.error(
      { op: "cleanup.retry", subject, err: error },
      "cleanup failed: it is retried",
    );
    context.retry(subject, work);
  }
}

export interface CleanupRetriesOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Fires when the registry closes; the next start, or `gc`, finds what is still open then. */
  readonly closing: AbortSignal;
  /** Closing waits for an attempt under way. */
  readonly track: Track;
}

/** Retries with backoff until the work is done or the registry closes. */
export function createCleanupRetries({
  clock,
  log,
  closing,
  track,
}: CleanupRetriesOptions): CleanupRetries {
  /** It never rejects. */
  async function run(subject: string, work: CleanUp, waitsAtFirst: boolean): Promise<void> {
    const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
    for (let waits = waitsAtFirst; ; waits = true) {
      try {
        if (waits) await clock.sleep(backoff.next(), closing);
        await asChange("cleanup.retry", () => work(closing));
        if (waits) log.info({ op: "cleanup.retry", subject, outcome: "ok" }, "cleanup.retry ok");
        return;
      } catch (error) {
        if (closing.aborted) return;
        log.error({ op: "cleanup.retry", subject, err: error }, "cleanup failed: it is retried");
      }
    }
  }
  return {
    retry: (subject, work) => void track(run(subject, work, true)),
    cleanUpLater: (subject, work) => void track(run(subject, work, false)),
  };
}
