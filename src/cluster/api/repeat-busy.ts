/** Requests that the API server refuses before it does anything are sent again, for a bounded time. */

import { setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../../common/backoff.ts";
import { SandboxError } from "../../common/errors.ts";

/** Clients of the service wait longer than that for a create. */
const MAX_BUSY_MS = 10_000;
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 1_000;
/** Requests that were refused together, by one front or many, are not sent together again. */
const MIN_JITTER = 0.5;

/** The cause of a refusal that passes by itself, and after which nothing was done. */
export function busyCause(message: string, waitMs: number): Error {
  return Object.assign(new Error(message), { waitMs });
}

/** Whether it was refused so, and nothing was done. */
export function isBusy(error: unknown): boolean {
  return waitOf(error) !== undefined;
}

/** How long the refusal asks to wait; undefined for another fault. */
function waitOf(error: unknown): number | undefined {
  const cause = error instanceof SandboxError ? error.cause : undefined;
  if (!(cause instanceof Error) || !("waitMs" in cause)) return undefined;
  return typeof cause.waitMs === "number" ? cause.waitMs : undefined;
}

/**
 * Repeats what is refused as busy, as late as the refusal says; the last refusal counts.
 * @throws an AbortError when the signal fires in between
 */
export async function repeatWhileBusy<T>(
  work: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const endMs = performance.now() + MAX_BUSY_MS;
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const askedMs = waitOf(error);
      if (askedMs === undefined) throw error;
      const waitMs = askedMs + backoff.next() * (MIN_JITTER + Math.random());
      if (performance.now() + waitMs > endMs) throw error;
      await delay(waitMs, undefined, signal && { signal });
    }
  }
}
