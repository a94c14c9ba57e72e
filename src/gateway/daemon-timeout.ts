/** How long the gateway waits for a daemon: one that is stopped takes requests and never answers. */

import type { ClientRequest } from "node:http";
import { SandboxError } from "../common/errors.ts";
import { ENVD_PORT } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import type { Exchange } from "./proxy.ts";

/** The daemon itself ends a call at its time limit; the gateway does so this much later. */
const GRACE_MS = 1_000;
/** A timer of the platform holds no more; it is 24 days. */
const MAX_TIMEOUT_MS = 2_147_000_000;
const RPC_PATH = /^\/(?:process\.Process|filesystem\.Filesystem)\//;
const TIMEOUT_HEADER = "connect-timeout-ms";

/**
 * Ends the exchange when no reply has begun and the daemon does not answer its host either, and an
 * RPC with a time limit of its own, reply and all, when that has passed.
 */
export function limitDaemonWait(exchange: Exchange, upstream: ClientRequest): void {
  const { request, response, passage } = exchange;
  const stop = passage.endpoint.watch.wait((error) => void upstream.destroy(error));
  upstream.once("response", stop).once("upgrade", stop).once("close", stop);
  const { headers, url = "" } = request;
  const limit = headers[TIMEOUT_HEADER];
  if (passage.port !== ENVD_PORT || !RPC_PATH.test(url)) return;
  if (typeof limit !== "string" || !/^[0-9]{1,10}$/.test(limit)) return;
  const limitMs = Math.min(Number(limit) + GRACE_MS, MAX_TIMEOUT_MS);
  const timer = setTimeout(() => {
    upstream.destroy(new SandboxError("deadline_exceeded", MESSAGES.daemonSilent));
  }, limitMs);
  response.once("close", () => clearTimeout(timer));
}
