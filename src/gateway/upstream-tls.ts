/** TLS towards a service in a sandbox that speaks nothing else. */

import { isIP, type Socket } from "node:net";
import { connect } from "node:tls";
import { SandboxError } from "../common/errors.ts";
import { withoutPort } from "../wire/address.ts";

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
