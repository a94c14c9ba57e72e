/** The listener of the service: one dispatch behind a private socket, a TCP address, or both. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { wantedProtocols } from "../common/connection-headers.ts";
import { endConnection } from "../common/end-connection.ts";
import { discardRest, sendJson } from "../common/http.ts";
import type { Logger } from "../common/log.ts";
import { keepingLittle } from "../common/loop-turns.ts";
import type { SandboxAddress } from "../wire/address.ts";
import { retryHeaders } from "../wire/retry.ts";
import { dispatchRequest, dispatchUpgrade, type Destination } from "./dispatch.ts";
import { openServer, type ListenAddress, type OpenServer } from "./open-server.ts";
import { probeClients } from "./probe-clients.ts";
import { refuseBroken, runRequest, runUpgrade } from "./request-errors.ts";
import { createTlsServer, type TlsServer } from "./tls.ts";
import { createWaitingRequests } from "./waiting-requests.ts";

/** Real clients send a few hundred bytes. */
const MAX_HEADER_BYTES = 16 * 1024;

/** A head must be there within this time; a body and a stream may take for ever. */
const HEADERS_TIMEOUT_MS = 10_000;

/** How often that is looked at; Node's own 30 s would come on top of it. */
const CHECK_MS = 1_000;

/** Longer than any client keeps an idle connection, so that none is closed under its next request. */
const KEEP_ALIVE_MS = 620_000;

/** The kernel asks a client that was silent for so long whether it is still there. */
const PROBE_AFTER_MS = 30_000;

/** Well below the usual limit of open files, each proxied connection taking two. */
const MAX_CONNECTIONS = 8192;

/** Requests under way when the service ends have this long to finish. */
const DEFAULT_GRACE_MS = 500;

/** A stream over which nothing has gone for this long is not waited for; it may never end. */
const SILENT_MS = 500;
const DRAIN_POLL_MS = 20;

/** Where a gateway request goes; without an address the gateway finds it by signature. */
export interface GatewayTarget {
  readonly address: SandboxAddress | undefined;
  readonly hasOwnHost: boolean;
}

type HttpHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** What handles requests. No handler rejects for what a request contains. */
export interface Handlers {
  /** Whether the control API answers by now. */
  isReady(): boolean;
  readonly control: HttpHandler;
  readonly gateway: (
    request: IncomingMessage,
    response: ServerResponse,
    target: GatewayTarget,
  ) => Promise<void>;
  readonly upgrade: (
    request: IncomingMessage,
    connection: UpgradeConnection,
    target: GatewayTarget,
  ) => Promise<void>;
  readonly mcp: HttpHandler;
  /** Metrics of the service; without it the path is one of the control API like any other. */
  readonly metrics?: HttpHandler | undefined;
}

/** The raw connection of an upgrade, with what was read beyond the head. */
export interface UpgradeConnection {
  readonly socket: Duplex;
  readonly head: Buffer;
}

export interface ListenerOptions {
  readonly addresses: readonly ListenAddress[];
  /** Gateway hosts are `{port}-{sandboxID}.<domain>`. */
  readonly domain: string;
  readonly handlers: Handlers;
  readonly log: Logger;
  /**
   * Milliseconds that requests under way have at the end, 500 by default: those to the control API,
   * calls of `/mcp`, and streams that are not silent.
   */
  readonly graceMs?: number | undefined;
}

export interface Listener extends AsyncDisposable {
  /** The chosen TCP port of each TCP address, in order. */
  readonly ports: readonly number[];
}

/**
 * Opens every address, or none.
 * @throws SandboxError unavailable when an address cannot be opened.
 */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const state = { isDraining: false, answering: 0 };
  const sockets = new Set<Socket>();
  const servers: OpenServer[] = [];
  const drains: (() => void)[] = [];
  const probes = probeClients(sockets);

  async function close(): Promise<void> {
    state.isDraining = true;
    probes[Symbol.dispose]();
    const closing = servers.map((server) => server.close());
    for (const drain of drains) drain();
    const graceMs = options.graceMs ?? DEFAULT_GRACE_MS;
    await Promise.race([Promise.all(closing), quiet({ state, sockets, graceMs })]);
    for (const socket of sockets) socket.destroy();
    await Promise.all(closing);
  }

  try {
    for (const address of options.addresses) {
      const { server, drain } = createServerFor(address, options.log);
      drains.push(drain);
      attach(server, { options, state, sockets });
      servers.push(await openServer(server, address));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const addresses = servers.map(({ server }) => server.address());
  return {
    ports: addresses.flatMap((address) => (isTcpAddress(address) ? [address.port] : [])),
    [Symbol.asyncDispose]: close,
  };
}

function isTcpAddress(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === "object" && address !== null;
}

function createServerFor(address: ListenAddress, log: Logger): TlsServer {
  const http = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_MS,
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // A client whose machine or network is gone never says so, and its streams would stay open.
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
    // Refused by the dispatch, with a body.
    requireHostHeader: false,
    // An offer of HTTP/2 alone makes no upgrade of a request, to whatever it goes.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) =>
      wantedProtocols(headers.upgrade) !== "",
  };
  if (address.kind === "tcp" && address.tls !== undefined) {
    return createTlsServer({ http, identity: address.tls, log });
  }
  return { server: createServer(http), drain: () => undefined };
}

interface ListenerParts {
  readonly options: ListenerOptions;
  readonly state: {
    readonly isDraining: boolean;
    /** Requests to the control API, and calls of `/mcp`, that have no reply yet. */
    answering: number;
  };
  readonly sockets: Set<Socket>;
}

/** Resolves when no reply is owed any more and all streams are silent, or in time. */
async function quiet(parts: {
  readonly state: { readonly answering: number };
  readonly sockets: ReadonlySet<Socket>;
  readonly graceMs: number;
}): Promise<void> {
  const { state, sockets, graceMs } = parts;
  const endMs = performance.now() + graceMs;
  let passed = countBytes(sockets);
  let silentSinceMs = performance.now();
  while (performance.now() < endMs) {
    // The timer must not keep the process once every address is closed.
    await delay(DRAIN_POLL_MS, undefined, { ref: false });
    const now = countBytes(sockets);
    if (now !== passed || state.answering > 0) silentSinceMs = performance.now();
    passed = now;
    if (performance.now() - silentSinceMs >= SILENT_MS) return;
  }
}

function countBytes(sockets: ReadonlySet<Socket>): number {
  let bytes = 0;
  for (const socket of sockets) bytes += socket.bytesRead + socket.bytesWritten;
  return bytes;
}

function attach(server: Server, { options, state, sockets }: ListenerParts): void {
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", (socket) => {
    sockets.add(keepingLittle(socket));
    socket.once("close", () => sockets.delete(socket));
  });
  const responses = new WeakMap<Duplex, ServerResponse>();
  const waiting = createWaitingRequests();
  server.on("request", (request, response) => {
    if (!waiting.admit(request.socket, response)) return;
    // Before Node does so at any speed and for any time.
    response.prependOnceListener("finish", () => discardRest(request));
    responses.set(request.socket, response);
    if (state.isDraining) response.setHeader("connection", "close");
    runRequest({ request, response }, options.log, async () => {
      const destination = dispatchRequest(request, options.domain);
      await handleRequest({ request, response, destination }, options.handlers, state);
    });
  });
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", (error) =>
      options.log.debug({ op: "http.upgrade", err: error }, "connection broke"),
    );
    runUpgrade(socket, options.log, async () => {
      const target = toTarget(dispatchUpgrade(request, options.domain));
      if (target === undefined) endConnection(socket, BAD_REQUEST);
      else await options.handlers.upgrade(request, { socket, head }, target);
    });
  });
  server.on("clientError", (error, socket) => {
    refuseBroken(error, socket, responses.get(socket));
  });
}

interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly destination: Destination;
}

async function handleRequest(
  { request, response, destination }: Arrival,
  handlers: Handlers,
  state: ListenerParts["state"],
): Promise<void> {
  switch (destination.kind) {
    case "refused":
      response.writeHead(400, { "content-type": TEXT, connection: "close", ...retryHeaders(400) });
      response.end(destination.message);
      return undefined;
    case "health":
      sendHealth(response, state.isDraining || !handlers.isReady() ? 503 : 204);
      return undefined;
    case "foreign-page":
      return sendJson(response, 403, { body: FOREIGN_PAGE, headers: retryHeaders(403) });
    case "login-probe":
      // Without asking for a key: a host that sees 401 here would take it for a login to come.
      return sendJson(response, 404, { body: { error: "not_found" } });
    case "mcp":
      // A stream of notifications, which a host opens by GET, may never end.
      if (request.method === "POST") countUntilClosed(response, state);
      return handlers.mcp(request, response);
    case "metrics":
      return (handlers.metrics ?? handlers.control)(request, response);
    case "control":
      countUntilClosed(response, state);
      return handlers.control(request, response);
    case "gateway":
    case "unaddressed":
      return handlers.gateway(request, response, toTarget(destination) ?? NO_TARGET);
  }
}

function countUntilClosed(response: ServerResponse, state: ListenerParts["state"]): void {
  state.answering += 1;
  response.once("close", () => {
    state.answering -= 1;
  });
}

function sendHealth(response: ServerResponse, status: number): void {
  response.writeHead(status, { "cache-control": "no-store", ...retryHeaders(status) }).end();
}

const TEXT = "text/plain; charset=utf-8";
const FOREIGN_PAGE = { code: 403, message: "Invalid origin" };
const NO_TARGET: GatewayTarget = { address: undefined, hasOwnHost: false };

/** Only the gateway takes upgrades. */
function toTarget(destination: Destination): GatewayTarget | undefined {
  if (destination.kind === "unaddressed") return NO_TARGET;
  if (destination.kind !== "gateway") return undefined;
  return { address: destination.address, hasOwnHost: destination.hasOwnHost };
}

const BAD_REQUEST = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
