/** Calls to the daemon on the channel that only the host has. */

import { request, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { SandboxError, toSandboxError } from "../common/errors.ts";

export interface DaemonCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
}

/**
 * One request on a connection of its own; the reply's head has come when it resolves. The signal
 * ends the connection at any time, also while the body is read.
 * @throws SandboxError unavailable when the daemon does not answer, internal when it refuses.
 */
export async function callDaemon(
  socket: Socket,
  call: DaemonCall,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const payload = call.body === undefined ? undefined : JSON.stringify(call.body);
  const outgoing = request({
    createConnection: () => socket,
    method: call.method,
    path: call.path,
    headers: {
      host: "localhost",
      ...(payload !== undefined && { "content-type": "application/json" }),
    },
    signal,
  });
  outgoing.on("response", resolve);
  outgoing.on("error", (error) => reject(toSandboxError(error, `daemon ${call.path}`)));
  outgoing.end(payload);
  const reply = await promise;
  if (reply.statusCode !== 200 && reply.statusCode !== 204) {
    socket.destroy();
    throw new SandboxError("internal", `daemon ${call.path} answered ${reply.statusCode}`);
  }
  return reply;
}
