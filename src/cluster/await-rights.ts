/** An API server that has just started refuses clients until it has read their roles. */

import { setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../common/backoff.ts";
import { throwIfCanceled } from "../common/or-canceled.ts";
import { isForbidden } from "./api/api.ts";

const WAIT_MS = 30_000;
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2_000;

/**
 * Repeats what is refused for want of a right, for a bounded time; then its last fault counts.
 * @throws SandboxError canceled when the signal fires
 */
export async function awaitRights<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const endMs = performance.now() + WAIT_MS;
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isForbidden(error) || performance.now() > endMs) throw error;
    }
    await delay(backoff.next(), undefined, { signal }).catch(() => throwIfCanceled(signal));
  }
}
