/** Connections into a sandbox: one for each request, so that none is ever shared. */

import { type Socket, isIP } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import type { Endpoint } from "../sandboxes/run.ts";
import { withoutPort } from "../wire/address.ts";
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
      if (!hasErrorCode(error, "unavailable")) throw error;
      if (endpoint.ended.aborted) throw error;
    }
    await delay(delayMs, undefined, { signal });
  }
  return endpoint.dial(port, signal);
}

/**
 * Speaks TLS on an open connection. The certificate is not checked: the connection leads into the
 * sandbox whatever it says, and services there sign their own.
 * @throws SandboxError unavailable when the service does not.
 */
export async function openTls(socket: Socket, host: string, signal: AbortSignal): Promise<Socket> {
  const name = withoutPort(host);
  const secured = connect({
    socket,
    rejectUnauthorized: false,
    ALPNProtocols: ["http/1.1"],
    // An address is no name that a client may ask for.
    ...(isIP(name.replaceAll(/[[\]]/g, "")) === 0 && { servername: name }),
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const abort = () => secured.destroy();
  signal.addEventListener("abort", abort, { once: true });
  secured.once("secureConnect", resolve);
  secured.once("error", reject);
  secured.once("close", () => reject(new Error("closed during the handshake")));
  try {
    await promise;
    secured.on("error", () => undefined);
    return secured;
  } catch (error) {
    socket.destroy();
    throw new SandboxError("unavailable", "no TLS is spoken there", { cause: error });
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
