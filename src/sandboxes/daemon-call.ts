/** Calls to the daemon on the channel that only the host has. */

import { request, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { asOperation } from "../common/operation.ts";

/** Interim replies that a daemon may send; ours sends none. */
const MAX_INTERIM_REPLIES = 8;

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
  socket: Duplex,
  call: DaemonCall,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const reply = await asOperation("daemon.call", () => send(socket, call, signal));
  if (reply.statusCode !== 200 && reply.statusCode !== 204) {
    socket.destroy();
    throw new SandboxError("internal", `daemon ${call.path} answered ${reply.statusCode}`);
  }
  return reply;
}

async function send(
  socket: Duplex,
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
  let interimReplies = 0;
  outgoing.on("information", () => {
    interimReplies += 1;
    if (interimReplies > MAX_INTERIM_REPLIES) outgoing.destroy(new Error("too many replies"));
  });
  outgoing.on("response", resolve);
  // An abort says that its signal fired, and the signal whether a caller or a bound did so.
  const reasonOf = (error: Error): unknown => (signal.aborted ? signal.reason : error);
  outgoing.on("error", (error) => reject(toSandboxError(reasonOf(error), `daemon ${call.path}`)));
  // A reply that switches protocols unasked ends the connection without an error.
  outgoing.on("close", () => {
    reject(new SandboxError("unavailable", `daemon ${call.path}: closed without a reply`));
  });
  outgoing.end(payload);
  return promise;
}
