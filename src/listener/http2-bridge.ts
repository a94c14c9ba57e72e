/**
 * HTTP/2 at the door, HTTP/1.1 behind it: each stream becomes one request on a connection inside
 * this process, so that every room speaks one protocol only.
 */

import { request as httpRequest, type IncomingMessage } from "node:http";
import {
  constants,
  createServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { duplexPair, pipeline, type Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { errorText } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";

/** What one client may have open at once, as pools of clients use them. */
const MAX_STREAMS = 256;

/** Megabytes that one connection may hold in buffers. */
const MAX_SESSION_MEMORY_MB = 16;

/** That of a client which is gone already: one without an address would be taken for a local one. */
const UNKNOWN_ADDRESS = "unknown";

const BAD_GATEWAY = 502;
const METHOD_NOT_ALLOWED = 405;

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
  /** Serves HTTP/1.1 on a connection. */
  readonly serve: (connection: Duplex) => void;
  readonly maxHeaderBytes: number;
  readonly log: Logger;
}

export interface Http2Bridge {
  /** Takes a connection on which HTTP/2 was agreed. */
  accept(socket: TLSSocket): void;
  /** Lets streams end and takes no new ones. */
  drain(): void;
}

export function createHttp2Bridge(options: Http2BridgeOptions): Http2Bridge {
  const sessions = new Set<Http2Session>();
  const server = createServer({
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
    settings: {
      maxConcurrentStreams: MAX_STREAMS,
      maxHeaderListSize: options.maxHeaderBytes,
      enablePush: false,
    },
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  server.on("sessionError", (error) =>
    options.log.debug({ op: "http2.session", reason: errorText(error) }, "connection broke"),
  );
  server.on("stream", (stream, headers) => forward(stream, headers, options));
  return {
    accept: (socket) => void server.emit("connection", socket),
    drain() {
      for (const session of sessions) session.close();
    },
  };
}

function forward(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { serve, log }: Http2BridgeOptions,
): void {
  const { ":method": method = "GET", ":path": path = "/" } = headers;
  stream.on("error", (error) =>
    log.debug({ op: "http2.stream", reason: errorText(error) }, "stream broke"),
  );
  if (method === "CONNECT") {
    stream.respond({ ":status": METHOD_NOT_ALLOWED }, { endStream: true });
    return;
  }
  const [inner, outer] = duplexPair();
  // Services inside are told how and from where the client came.
  const remoteAddress = stream.session?.socket.remoteAddress ?? UNKNOWN_ADDRESS;
  serve(Object.assign(outer, { encrypted: true, remoteAddress }));
  const call = httpRequest({
    createConnection: () => inner,
    method,
    path,
    headers: [...toInnerHeaders(headers), ...toFraming(stream, headers)],
    setHost: false,
  });
  call.on("response", (reply) => answer(stream, reply));
  call.on("error", () => {
    if (stream.destroyed) return;
    if (stream.headersSent) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    else stream.respond({ ":status": BAD_GATEWAY }, { endStream: true });
  });
  stream.once("close", () => {
    call.destroy();
    inner.destroy();
    outer.destroy();
  });
  stream.pipe(call);
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

function answer(stream: ServerHttp2Stream, reply: IncomingMessage): void {
  if (stream.destroyed) {
    reply.destroy();
    return;
  }
  const headers: Record<string, string | string[]> = {};
  for (const [name, values = []] of Object.entries(reply.headersDistinct)) {
    // Only cookies may come twice in HTTP/2; a list in one header means the same.
    if (!HOP_BY_HOP.has(name)) headers[name] = name === "set-cookie" ? values : values.join(", ");
  }
  stream.respond({ ":status": reply.statusCode ?? BAD_GATEWAY, ...headers });
  // A premature end resets the stream: the client sees that the reply is not whole.
  pipeline(reply, stream, () => undefined);
}
