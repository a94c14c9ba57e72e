/** What failed and must be done all the same is tried again until it succeeds or the room closes. */

import { createBackoff } from "../common/backoff.ts";
import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { asChange } from "../common/operation.ts";

/** Waits between attempts grow from the first to the last; a full disk may stay full for hours. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;

/** Takes work over. */
export interface CleanupRetries {
  retry(subject: string, work: () => Promise<void>): void;
}

/** Does now what only cleans up after a change that counts already; what fails is done later. */
export async function cleanUpOrRetry(
  room: CleanupRetries & { readonly log: Logger },
  subject: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    room.log.error({ op: "later", subject, err: error }, "to be tried again");
    room.retry(subject, work);
  }
}

export interface CleanupRetriesOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Fires when the room closes; what is still open then is found by the next start, or by `gc`. */
  readonly closing: AbortSignal;
}

/** Does the work at once or later; resolves when it is done or given up. Never rejects. */
export async function createCleanupRetries(
  { clock, log, closing }: CleanupRetriesOptions,
  subject: string,
  work: () => Promise<void>,
): Promise<void> {
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  for (;;) {
    try {
      await clock.sleep(backoff.next(), closing);
      await asChange("later", work);
      log.info({ op: "later", subject, outcome: "ok" }, "done later");
      return;
    } catch (error) {
      if (closing.aborted) return;
      log.error({ op: "later", subject, err: error }, "to be tried again");
    }
  }
}
