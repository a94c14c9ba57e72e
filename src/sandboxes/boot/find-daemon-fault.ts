/** Whether the daemon of a running sandbox answers: root inside can stop it by a signal. */

import { setTimeout } from "node:timers/promises";
import { createBackoff } from "../../common/backoff.ts";
import type { Container } from "../../engine/engine.ts";
import type { Services } from "../context.ts";
import { awaitHealth } from "./boot.ts";

/** A daemon that works answers in milliseconds, on a busy machine in seconds. */
const DAEMON_LIMIT_MS = 5_000;
const FIRST_DELAY_MS = 10;
const MAX_DELAY_MS = 500;

/**
 * Undefined when the daemon answers. One that ended between question and answer starts again within
 * moments, so it is asked until its time is over.
 */
export async function findDaemonFault(
  { closing }: Pick<Services, "closing">,
  { container }: { readonly container: Pick<Container, "dialPublic" | "isAnswering"> },
): Promise<unknown> {
  const endMs = performance.now() + DAEMON_LIMIT_MS;
  if ((await container.isAnswering?.()) === true) return undefined;
  const backoff = createBackoff(FIRST_DELAY_MS, MAX_DELAY_MS);
  for (;;) {
    try {
      await awaitHealth(container, closing, endMs - performance.now());
      return undefined;
    } catch (error) {
      // The service ends: what it did not wait for says nothing about the daemon.
      closing.throwIfAborted();
      const delayMs = backoff.next();
      if (performance.now() + delayMs >= endMs) return error;
      await setTimeout(delayMs, undefined, { signal: closing });
    }
  }
}
