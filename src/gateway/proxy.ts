/** Bytes both ways between a client and a service in a sandbox. Nothing is read, nothing kept. */

import {
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { toClientHeaders, toUpstreamHeaders, type Passage, type ReplyRules } from "./headers.ts";
import { notRunning, portClosed, sendRefusal } from "./refusal.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly passage: Passage;
  readonly rules: ReplyRules;
}

/**
 * Sends the request through the socket and the reply back; resolves when the exchange is over. A
 * reply that breaks off inside breaks off outside too: the client's connection is cut.
 */
export async function proxy(exchange: Exchange, socket: Socket): Promise<void> {
  const { request, response, passage } = exchange;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const upstream = openUpstream(request, socket, [
    ...toUpstreamHeaders(request, passage),
    "connection",
    "close",
  ]);
  response.once("close", () => {
    upstream.destroy();
    resolve();
  });
  upstream.on("response", (reply) => relay(reply, exchange));
  upstream.on("error", () => refuseUnlessBegun(exchange));
  request.on("error", () => upstream.destroy());
  request.pipe(upstream);
  await over;
}

/** A request on an open connection, with exactly these headers. */
export function openUpstream(
  request: IncomingMessage,
  socket: Socket,
  headers: readonly string[],
): ClientRequest {
  const { method = "GET", url = "/" } = request;
  return httpRequest({
    createConnection: () => socket,
    method,
    path: url,
    headers: [...headers],
    setHost: false,
  });
}

/** Passes a reply on as it comes. */
export function relay(reply: IncomingMessage, { request, response, rules }: Exchange): void {
  if (response.destroyed) return;
  // A client that still sends, to a service that has answered already, cannot be waited for.
  if (!request.complete) response.shouldKeepAlive = false;
  const { statusCode = 502, statusMessage = "" } = reply;
  response.writeHead(statusCode, statusMessage, toClientHeaders(reply, rules));
  response.flushHeaders();
  // A premature end destroys the response and with it the client's connection.
  pipeline(reply, response, () => undefined);
}

/** The wire's words for a connection that failed before a reply; afterwards only a cut is true. */
export function refuseUnlessBegun({ response, passage }: Exchange): void {
  const { endpoint, port } = passage;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { sandboxId } = endpoint;
  sendRefusal(
    response,
    endpoint.ended.aborted ? notRunning(sandboxId) : portClosed({ sandboxId, port }),
  );
}
