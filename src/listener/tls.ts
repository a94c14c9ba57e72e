/** A listener with TLS: HTTP/1.1 and HTTP/2, as the client asks for in the handshake. */

import type { Server, ServerOptions, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { keepingLittle } from "../common/loop-turns.ts";
import { createHttp2Bridge } from "./http2-bridge.ts";
import { requirePair } from "./key-pair.ts";

/** A client that does not finish its handshake is cut off. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
const MIN_VERSION = "TLSv1.2";

/** PEM texts. */
export interface TlsIdentity {
  /** The certificate, with those between it and the root. */
  readonly certificate: string;
  readonly key: string;
  /** Calls back with what takes their place, for as long as the process lives. */
  readonly onRenewal?: (use: (next: Omit<TlsIdentity, "onRenewal">) => void) => void;
}

export interface TlsServer {
  readonly server: Server;
  /** Lets the requests of HTTP/2 that are under way end. */
  readonly drain: () => void;
}

/**
 * A server that is no different from one without TLS to the handlers of its requests.
 * @throws SandboxError failed_precondition when certificate and key do not fit.
 */
export function createTlsServer(options: {
  readonly http: ServerOptions & {
    readonly maxHeaderSize: number;
    readonly headersTimeout: number;
    readonly keepAliveTimeout: number;
  };
  readonly identity: TlsIdentity;
  readonly log: Logger;
}): TlsServer {
  const { http, identity, log } = options;
  const server = openServer(http, identity);
  // The server's own way to take a connection whose handshake is over.
  const takers = server.listeners("secureConnection");
  const serve = (connection: Duplex) => {
    for (const take of takers) Reflect.apply(take, server, [connection]);
  };
  const replies = new WeakMap<Duplex, ServerResponse>();
  server.on("request", (request, response) => replies.set(request.socket, response));
  const bridge = createHttp2Bridge({
    serve,
    isAnswered: (connection) => replies.get(connection)?.writableEnded === true,
    maxHeaderBytes: http.maxHeaderSize,
    idle: { firstMs: http.headersTimeout, laterMs: http.keepAliveTimeout },
    log,
  });
  server.removeAllListeners("secureConnection");
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol === "h2") bridge.accept(socket);
    else serve(keepingLittle(socket));
  });
  return { server, drain: () => bridge.drain() };
}

function openServer(http: ServerOptions, identity: TlsIdentity) {
  const { certificate, key, onRenewal } = identity;
  try {
    requirePair(identity);
    const server = createServer({
      ...http,
      cert: certificate,
      key,
      minVersion: MIN_VERSION,
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    });
    // Connections that are open keep what they began with.
    onRenewal?.((next) =>
      server.setSecureContext({ cert: next.certificate, key: next.key, minVersion: MIN_VERSION }),
    );
    return server;
  } catch (error) {
    throw new SandboxError("failed_precondition", "certificate and key cannot be used", {
      cause: error,
      hint: "both are PEM files, and the key is that of the first certificate",
    });
  }
}
