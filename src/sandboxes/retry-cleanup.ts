/** Retries failed cleanup until it succeeds or the registry closes. */

import { createBackoff } from "../common/backoff.ts";
import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { asChange } from "../common/operation.ts";

/** Waits between attempts grow from the first to the last; a full disk may stay full for hours. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

export interface CleanupRetries {
  retry(subject: string, work: () => Promise<void>): void;
}

/** Cleans up after a change that counts already; a failure is retried in the background. */
export async function cleanUpOrRetry(
  context: CleanupRetries & { readonly log: Logger },
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
}

/** Retries with backoff; resolves when the work is done or the registry closes. Never rejects. */
export async function createCleanupRetries(
  { clock, log, closing }: CleanupRetriesOptions,
  subject: string,
  work: () => Promise<void>,
): Promise<void> {
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  for (;;) {
    try {
      await clock.sleep(backoff.next(), closing);
      await asChange("cleanup.retry", work);
      log.info({ op: "cleanup.retry", subject, outcome: "ok" }, "cleanup.retry ok");
      return;
    } catch (error) {
      if (closing.aborted) return;
      log.error({ op: "cleanup.retry", subject, err: error }, "cleanup failed: it is retried");
    }
  }
}
