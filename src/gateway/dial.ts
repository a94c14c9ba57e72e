/** Connections into a sandbox: one for each request, so that none is ever stale or shared. */

import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { SandboxError } from "../common/errors.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import { ENVD_PORT } from "../wire/headers.ts";

/** A server that was just started may need a moment until it listens. */
const RETRY_DELAYS_MS = [100, 200, 300, 400];

/** @throws SandboxError unavailable when nothing listens there after about a second. */
export async function dialPort(
  endpoint: Endpoint,
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  const delaysMs = port === ENVD_PORT ? [] : RETRY_DELAYS_MS;
  for (const delayMs of delaysMs) {
    try {
      return await endpoint.dial(port, signal);
    } catch (error) {
      // Nothing was sent yet: to try again is safe.
      if (!(error instanceof SandboxError) || error.code !== "unavailable") throw error;
      if (endpoint.ended.aborted) throw error;
    }
    await delay(delayMs, undefined, { signal });
  }
  return endpoint.dial(port, signal);
}
