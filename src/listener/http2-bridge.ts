/**
 * HTTP/2 outside, HTTP/1.1 behind it: each stream becomes one request on a connection inside
 * this process, so that every module speaks one protocol only.
 */

import { request as httpRequest, type IncomingMessage } from "node:http";
import {
  performServerHandshake,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Logger } from "../common/log.ts";
import { bindEmitter, failUntilClosed, runOperation, type Operation } from "../common/operation.ts";
import { openPair } from "./connection-pair.ts";
import { hasUnread, onceTaken, passBody } from "./http2-flow.ts";
import { wrapConnection } from "./wrapped-connection.ts";

/** What one client may have open at once, as pools of clients use them. */
const MAX_STREAMS = 256;

/** Megabytes that one connection may hold in buffers. */
const MAX_SESSION_MEMORY_MB = 16;

/** That of a client which is gone already: one without an address would be taken for a local one. */
const UNKNOWN_ADDRESS = "unknown";

/** How long a head may take before the stream is reset without it. */
const HEAD_LIMIT_MS = 1_000;

const CONTINUE = 100;
const BAD_GATEWAY = 502;
const METHOD_NOT_ALLOWED = 405;

/** With a length these are malformed, and clients reset the stream; 304 tells that of another reply. */
const NO_CONTENT: ReadonlySet<number> = new Set([204, 205]);

/** Headers that have no place in HTTP/2, in either direction. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);

export interface Http2BridgeOptions {
  readonly serve: (connection: Duplex) => void;
  /** Whether the whole reply to the request on a connection was given. */
  readonly isAnswered: (connection: Duplex) => boolean;
  readonly maxHeaderBytes: number;
  /** How long a connection may stay open without its first frame, and later without a stream. */
  readonly idle: { readonly firstMs: number; readonly laterMs: number };
  readonly log: Logger;
}

export interface Http2Bridge {
  /** Takes a connection on which HTTP/2 was agreed. */
  accept(socket: TLSSocket): void;
  /** Lets streams end and takes no new ones. */
  drain(): void;
}

export function createHttp2Bridge(options: Http2BridgeOptions): Http2Bridge {
  const { log } = options;
  const sessions = new Set<Http2Session>();
  const settings = {
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: options.maxHeaderBytes,
      enablePush: false,
    },
  };
  return {
    accept(socket) {
      const { remoteAddress = UNKNOWN_ADDRESS } = socket;
      const session = performServerHandshake(wrapConnection(socket), settings);
      sessions.add(session);
      session.once("close", () => sessions.delete(session));
      session.on("error", (error) =>
        log.debug({ op: "http2.session", err: error }, "connection broke"),
      );
      session.on("stream", (stream, headers) => {
        const fail = failUntilClosed(stream, refuse);
        const operation: Operation = { name: "http2.stream", fail };
        bindEmitter(stream, operation);
        runOperation(operation, () => forward({ stream, headers, remoteAddress }, options));
      });
      endWhenIdle(session, options.idle);
    },
    drain() {
      for (const session of sessions) session.close();
    },
  };
}

/** Ends a connection that asks for nothing, which HTTP/2 has no time limit for. */
function endWhenIdle(
  session: Http2Session,
  { firstMs, laterMs }: Http2BridgeOptions["idle"],
): void {
  let streams = 0;
  let timer: NodeJS.Timeout | undefined;
  const wait = (ms: number): void => {
    clearTimeout(timer);
    if (streams === 0 && !session.destroyed)
      timer = setTimeout(() => session.destroy(), ms).unref();
  };
  wait(firstMs);
  session.once("remoteSettings", () => wait(laterMs));
  session.on("stream", (stream) => {
    streams += 1;
    clearTimeout(timer);
    stream.once("close", () => {
      streams -= 1;
      wait(laterMs);
    });
  });
  session.once("close", () => clearTimeout(timer));
}

/** A client that leaves its side open, or reads no reply, would hold an answered stream for ever. */
function endWhenAnswered(
  stream: ServerHttp2Stream,
  silentMs: number,
  isAnswered: () => boolean,
): void {
  stream.setTimeout(silentMs);
  stream.on("timeout", () => {
    if (stream.writableEnded || isAnswered()) stream.destroy();
    else stream.setTimeout(silentMs);
  });
}

interface Arrival {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
}

function forward(
  { stream, headers, remoteAddress }: Arrival,
  { serve, isAnswered, idle, log }: Http2BridgeOptions,
): void {
  const { ":method": method = "GET", ":path": path = "/" } = headers;
  stream.on("error", (error) => log.debug({ op: "http2.stream", err: error }, "stream broke"));
  if (method === "CONNECT") {
    stream.respond({ ":status": METHOD_NOT_ALLOWED }, { endStream: true });
    return;
  }
  let reply: IncomingMessage | undefined;
  const { inner, outer } = openPair((goOn) =>
    onceTaken(stream, () => [inner, reply].some(hasUnread), goOn),
  );
  endWhenAnswered(stream, idle.laterMs, () => isAnswered(outer));
  // Services inside are told how and from where the client came.
  serve(Object.assign(outer, { encrypted: true, remoteAddress }));
  const call = httpRequest({
    createConnection: () => inner,
    method,
    path,
    headers: [...toInnerHeaders(headers), ...toFraming(stream, headers)],
    setHost: false,
  });
  call.on("response", (begun) => {
    reply = begun;
    answer(stream, reply, log);
  });
  // A reply that switches protocols without having been asked to has no form in HTTP/2.
  call.on("upgrade", () => refuse(stream));
  call.on("error", () => refuse(stream));
  stream.once("close", () => {
    call.destroy();
    inner.destroy();
    outer.destroy();
  });
  // As Node's server does for HTTP/1.1. Without it some clients never send their body.
  const isExpected = headers.expect?.toLowerCase() === "100-continue";
  if (isExpected && !stream.closed) stream.additionalHeaders({ ":status": CONTINUE });
  // The first byte of a body may come later than a head may take, or after the reply has begun.
  if (!stream.endAfterHeaders) call.flushHeaders();
  passBody(stream, call);
  // A stream that is reset ends too: what came of its body would look whole.
  stream.once("end", () => (stream.closed ? call.destroy() : call.end()));
}

/**
 * A body of unknown length comes in chunks, whatever the method: Node frames none for GET or DELETE,
 * and what is not framed would be read as the next request.
 */
function toFraming(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): string[] {
  const isFramed = stream.endAfterHeaders || headers["content-length"] !== undefined;
  return isFramed ? [] : ["transfer-encoding", "chunked"];
}

/** The authority is the host; a Host header beside it would be a second one. */
function toInnerHeaders(headers: IncomingHttpHeaders): string[] {
  const { ":authority": authority = headers.host } = headers;
  const pairs: string[] = authority === undefined ? [] : ["host", authority];
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith(":") || name === "host" || HOP_BY_HOP.has(name)) continue;
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) pairs.push(name, one);
    }
  }
  return pairs;
}

/** There is no reply that could be passed on; one that has begun is cut. False when it is over. */
function refuse(stream: ServerHttp2Stream): boolean {
  if (stream.destroyed || stream.closed) return false;
  // Closing would end the body first, and what is cut would look whole.
  if (stream.headersSent) stream.destroy(new Error("the reply broke off"));
  else stream.respond({ ":status": BAD_GATEWAY }, { endStream: true });
  return true;
}

function answer(stream: ServerHttp2Stream, reply: IncomingMessage, log: Logger): void {
  if (stream.destroyed) {
    reply.destroy();
    return;
  }
  try {
    stream.respond({ ":status": reply.statusCode ?? BAD_GATEWAY, ...toOuterHeaders(reply) });
  } catch (error) {
    // Not every head of HTTP/1.1 can be said in HTTP/2.
    log.debug({ op: "http2.stream", err: error }, "reply refused");
    reply.destroy();
    refuse(stream);
    return;
  }
  reply.on("error", (error) => log.debug({ op: "http2.stream", err: error }, "reply broke off"));
  const head = headSent(stream);
  reply.once("close", () => {
    // A premature end resets the stream, so that the client sees that the reply is not whole.
    if (!reply.complete) void head.then(() => refuse(stream));
  });
  reply.pipe(stream);
}

/**
 * Resolves once the head has left, which a reset would overtake; after a while also where a client lets
 * nothing be sent. It is the first write of the stream: it has no bytes, and is taken behind the head.
 */
async function headSent(stream: ServerHttp2Stream): Promise<void> {
  if (stream.writableEnded) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, HEAD_LIMIT_MS).unref();
  stream.write("", () => resolve());
  await promise;
  clearTimeout(timer);
}

function toOuterHeaders(reply: IncomingMessage): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  const isEmpty = NO_CONTENT.has(reply.statusCode ?? 0);
  for (const [name, values = []] of Object.entries(reply.headersDistinct)) {
    if (HOP_BY_HOP.has(name) || (isEmpty && name === "content-length")) continue;
    // Only cookies may come twice in HTTP/2; a list in one header means the same.
    headers[name] = name === "set-cookie" ? values : values.join(", ");
  }
  return headers;
}
