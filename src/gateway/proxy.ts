/** Bytes both ways between a client and a service in a sandbox. Nothing is read, nothing kept. */

import {
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { causeCode, hasErrorCode, SandboxError } from "../common/errors.ts";
import { discardRest } from "../common/http.ts";
import { limitInterimReplies } from "../common/interim-replies.ts";
import type { Logger } from "../common/log.ts";
import { inLoopTurns, keepingLittle } from "../common/loop-turns.ts";
import { shortageOf } from "../common/shortage.ts";
import { ENVD_PORT } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import {
  toClientHeaders,
  toClientPhrase,
  toUpstreamHeaders,
  type Passage,
  type ReplyRules,
} from "./headers.ts";
import {
  noReply,
  notRunning,
  outOfResources,
  sendRefusal,
  silent,
  type Refusal,
} from "./refusal.ts";

/** RFC 9110, 15: statuses below are interim, and none is beyond. */
const MIN_FINAL_STATUS = 200;
const MAX_STATUS = 599;

const NOTHING = Buffer.alloc(0);

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly passage: Passage;
  readonly rules: ReplyRules;
  readonly log: Logger;
}

/**
 * Sends the request through the socket and the reply back; resolves when the exchange is over. A
 * reply that breaks off inside breaks off outside too: the client's connection is cut.
 */
export async function proxy(exchange: Exchange, socket: Socket): Promise<void> {
  const { request, response, passage } = exchange;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  // With `close` a service that answers before it has read the whole request would shut the
  // connection under the rest of it, and its answer would be lost. We close it ourselves.
  const upstream = openUpstream(request, socket, [
    ...toUpstreamHeaders(request, passage),
    "connection",
    "keep-alive",
  ]);
  response.once("close", () => {
    socket.destroy();
    discardRest(request);
    resolve();
  });
  limitDaemonWait(exchange, upstream);
  passReply(upstream, exchange);
  // The client did not ask for it: such an answer would leave the client waiting for another one.
  upstream.on("upgrade", (_reply, inner) => {
    inner.destroy();
    refuseUnlessBegun(exchange, new Error("the service switched protocols by itself"));
  });
  request.on("error", () => socket.destroy());
  void sendBody(request, upstream);
  await over;
}

/** Sends the body on as it comes, until the service takes no more of it. */
async function sendBody(request: IncomingMessage, upstream: ClientRequest): Promise<void> {
  try {
    for await (const chunk of inLoopTurns(upstream)(request)) {
      if (upstream.destroyed) return;
      upstream.write(chunk);
    }
    upstream.end();
  } catch {
    // The client has left, and the service sees that the body is not whole.
    upstream.destroy();
  }
}

/** A request on an open connection, with exactly these headers. */
export function openUpstream(
  request: IncomingMessage,
  socket: Socket,
  headers: readonly string[],
): ClientRequest {
  const { method = "GET", url = "/" } = request;
  const upstream = httpRequest({
    createConnection: () => keepingLittle(socket),
    method,
    path: url,
    headers: [...headers],
    setHost: false,
  });
  limitInterimReplies(upstream);
  return upstream;
}

/** Passes on the reply to a request, or says why there is none. */
export function passReply(upstream: ClientRequest, exchange: Exchange): void {
  let passed: IncomingMessage | undefined;
  upstream.on("response", (reply) => {
    passed = reply;
    relay(reply, exchange);
  });
  upstream.on("error", (error) => {
    // What is wrong behind a whole reply, such as bytes beyond its length, takes nothing from it.
    if (passed?.complete !== true) refuseUnlessBegun(exchange, error);
  });
}

function relay(reply: IncomingMessage, exchange: Exchange): void {
  const { response, rules } = exchange;
  if (response.destroyed) return;
  try {
    const status = requireFinalStatus(reply);
    response.writeHead(status, toClientPhrase(reply), toClientHeaders(reply, rules));
  } catch (error) {
    // The head was one that we must not send: to the client there is no service.
    reply.destroy();
    refuseUnlessBegun(exchange, error);
    return;
  }
  // `flushHeaders` would write the head as UTF-8, and each byte beyond ASCII as two.
  response.write(NOTHING);
  // At once: Node holds what is written until the next tick, and a reply may break off before.
  response.socket?.uncork();
  // A premature end destroys the response and with it the client's connection.
  pipeline(reply, inLoopTurns(response), response, () => undefined);
}

/**
 * The status of a reply that ends its exchange. Programs inside send any number of three digits; what
 * HTTP does not define, no listener can carry: HTTP/2 has no 101, and nothing beyond 599.
 */
function requireFinalStatus({ statusCode = 0 }: IncomingMessage): number {
  if (statusCode >= MIN_FINAL_STATUS && statusCode <= MAX_STATUS) return statusCode;
  throw new Error(`the service answered with the status ${statusCode}`);
}

/**
 * The wire's words for a connection that failed before a reply; afterwards only a cut is true. The
 * message is that of a service that took the connection, unless it is given.
 */
export function refuseUnlessBegun(
  { response, passage, log }: Exchange,
  error: unknown,
  message: string = replyFault(error),
): void {
  const { endpoint, port } = passage;
  const entry = { op: "gateway.connection", sandboxId: endpoint.sandboxId, port };
  log.debug({ ...entry, err: error }, "connection into the sandbox failed");
  // A whole answer stands: the connection broke behind it, or because of it.
  if (response.writableEnded) return;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  sendRefusal(response, toRefusal(passage, error, message));
}

function replyFault(error: unknown): string {
  const code = causeCode(error);
  if (code === "HPE_HEADER_OVERFLOW") return MESSAGES.replyHeadTooLong;
  const isRead = code === undefined || code.startsWith("HPE_");
  return isRead ? MESSAGES.replyInvalid : MESSAGES.replyMissing;
}

function toRefusal({ endpoint, port }: Passage, error: unknown, message: string): Refusal {
  const { sandboxId, ended } = endpoint;
  if (ended.aborted) return notRunning(sandboxId);
  const shortage = shortageOf(error);
  if (shortage !== undefined) return outOfResources({ sandboxId, port }, shortage);
  const isSilent = hasErrorCode(error, "deadline_exceeded");
  return isSilent ? silent({ sandboxId, port }) : noReply({ sandboxId, port }, message);
}

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
  const { request, passage } = exchange;
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
  upstream.once("close", () => clearTimeout(timer));
}
