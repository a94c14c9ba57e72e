/**
 * All that skopeo reaches while it fetches an image that a request named: a proxy that connects to
 * addresses of the internet alone. A registry may send a client anywhere, by a redirection, by the
 * place where it gives out tokens, by addresses in a manifest, and by a name that resolves to another
 * address the second time; each connection is looked at here, and made to the address that was looked
 * at. Registries that a rule of `--registry-mirror` leads to may be anywhere, where such a rule leads to
 * the registry of the image, too.
 */

import { lookup } from "node:dns/promises";
import { once } from "node:events";
import {
  createServer as createHttpServer,
  request as startRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server as HttpServer,
  type ServerResponse,
} from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { anySignal } from "../common/any-signal.ts";
import { connectionOptions, HOP_BY_HOP } from "../common/connection-headers.ts";
import { hasErrorCode, SandboxError, toSandboxError } from "../common/errors.ts";
import { limitInterimReplies } from "../common/interim-replies.ts";
import { joinStreams } from "../common/join-streams.ts";
import { signalAfter } from "../common/late-signal.ts";
import { listenAtPath } from "../common/listen-at-path.ts";
import { dialFirst } from "../common/sockets.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { countTraffic } from "./count-traffic.ts";
import type { RegistryMirror } from "./images.ts";
import { toMirrorPlace, type MirrorPlace } from "./reference.ts";
import { findPublicAddresses } from "./registry-address.ts";

/** skopeo has a handful. */
const MAX_CONNECTIONS = 64;
const MAX_HEADER_BYTES = 16_384;
const HEADERS_TIMEOUT_MS = 10_000;
const CHECK_MS = 1_000;
const DIAL_TIMEOUT_MS = 10_000;
/** A registry that sends nothing for this long, while skopeo waits for it, has gone. */
const DEFAULT_IDLE_MS = 60_000;
/** What is beyond the blobs of an image: documents, headers, frames of TLS, one more try. */
const OVERHEAD = { factor: 1.25, bytes: 32 * 1024 ** 2 } as const;
const PORTS = { "http:": 80, "https:": 443 } as const;

export interface RegistryProxyOptions {
  /** Of this pull alone: the sockets are there. */
  readonly directory: string;
  /** None where the registry of the image has no rule. */
  readonly mirrors: readonly RegistryMirror[];
  /** Of the image: skopeo compresses what comes, and its files say little of that. */
  readonly maxBytes: number;
  /** Given by tests: name servers in the place of the machine's, as ADDRESS:PORT. */
  readonly nameServers?: readonly string[] | undefined;
  /** How long a registry may send nothing; default a minute. */
  readonly idleMs?: number;
}

export interface RegistryProxy extends AsyncDisposable {
  /** What `behind-proxy.pl` listens for: ports of loopback, each with the name of its socket. */
  readonly listeners: readonly string[];
  /** Why a connection was refused or cut, the last one; undefined where none was. */
  refusal(): SandboxError | undefined;
}

interface Place {
  readonly host: string;
  readonly port: number;
}

type Dial = (place: Place) => Promise<Socket>;

/** @throws SandboxError unavailable when a socket cannot be opened. */
export async function startRegistryProxy(options: RegistryProxyOptions): Promise<RegistryProxy> {
  const { idleMs = DEFAULT_IDLE_MS } = options;
  const places = options.mirrors.map(({ to }) => toMirrorPlace(to));
  await using stack = new AsyncDisposableStack();
  let refused: SandboxError | undefined;
  const sockets = new Set<Socket>();
  const over = new AbortController();
  const end = () => {
    over.abort();
    for (const socket of sockets) socket.destroy();
  };
  const traffic = stack.use(
    countTraffic(options.maxBytes * OVERHEAD.factor + OVERHEAD.bytes, () => {
      const message = `the image has more than ${options.maxBytes} bytes`;
      refused = new SandboxError("resource_exhausted", message);
      end();
    }),
  );
  const dial: Dial = async (place) => {
    // skopeo goes on with a blob that was cut, by a new connection.
    over.signal.throwIfAborted();
    try {
      const addresses = await findAddresses(place, places, options.nameServers);
      const target = await dialPlace(place, addresses, over.signal);
      traffic.add(target);
      return target;
    } catch (error) {
      if (hasErrorCode(error, "permission_denied")) refused = error;
      throw error;
    }
  };
  const open = async (name: string, server: Server) => {
    server.maxConnections = MAX_CONNECTIONS;
    const close = async () => void server.close();
    stack.defer(await listenAtPath(server, join(options.directory, name), close));
  };
  stack.defer(end);
  const watch = (server: Server) =>
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.once("close", () => sockets.delete(socket));
      socket.setTimeout(idleMs);
      socket.on("timeout", () => endIdle(socket, idleMs));
    });
  try {
    const listeners = ["0=proxy.sock"];
    await open("proxy.sock", watch(createProxy(dial, idleMs)));
    // Clients ask no proxy for what is on loopback: there is a listener for each of these.
    for (const [port, host] of loopbackPorts(places)) {
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        // Errors end both ends.
        void dial({ host, port }).then(
          (target) => joinStreams(socket, target),
          () => socket.destroy(),
        );
      });
      await open(`${port}.sock`, watch(server));
      listeners.push(`${port}=${port}.sock`);
    }
    const owned = stack.move();
    return {
      listeners,
      refusal: () => refused,
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  } catch (error) {
    throw toSandboxError(error, "proxy for a registry");
  }
}

/** The ports of registries on loopback, each with its host. */
function loopbackPorts(places: readonly MirrorPlace[]): ReadonlyMap<number, string> {
  return new Map(
    places
      .filter(isLoopback)
      .flatMap((place) => portsOf(place).map((port) => [port, place.host] as const)),
  );
}

function isLoopback({ host }: MirrorPlace): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}

async function findAddresses(
  { host, port }: Place,
  places: readonly MirrorPlace[],
  nameServers: readonly string[] | undefined,
): Promise<readonly string[]> {
  const isNamed = places.some((place) => place.host === host && portsOf(place).includes(port));
  if (!isNamed) return findPublicAddresses(host, nameServers);
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** Connects to what was looked at: no name is resolved a second time. */
async function dialPlace(
  { host, port }: Place,
  addresses: readonly string[],
  over: AbortSignal,
): Promise<Socket> {
  const signal = anySignal([over, signalAfter(DIAL_TIMEOUT_MS)]);
  try {
    return await dialFirst({ addresses, port, signal, allowHalfOpen: true });
  } catch (cause) {
    const name = quoteUntrusted(`${host}:${port}`);
    throw new SandboxError("unavailable", `registry ${name} does not answer`, { cause });
  }
}

/** A rule without a port means the usual ones. */
function portsOf({ port }: MirrorPlace): readonly number[] {
  return port === undefined ? Object.values(PORTS) : [port];
}

/** A slow disk makes no connection idle: then skopeo has not taken what was sent. */
function endIdle(socket: Socket, idleMs: number): void {
  if (socket.writableLength === 0) socket.destroy();
  else socket.setTimeout(idleMs);
}

function createProxy(dial: Dial, idleMs: number): HttpServer {
  const server = createHttpServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_MS,
    requestTimeout: 0,
    requireHostHeader: false,
  });
  // The connections end by `endIdle`: without a listener the server would end each that is idle.
  server.setTimeout(idleMs, () => undefined);
  server.on("clientError", (_error, socket) => socket.destroy());
  server.on("connect", (request, socket, head) => void tunnel(dial, { request, socket, head }));
  server.on("request", (request, response) => void forward(dial, { request, response }));
  return server;
}

/** Never rejects: what goes wrong ends the connection of skopeo, which says so. */
async function tunnel(
  dial: Dial,
  {
    request,
    socket,
    head,
  }: { readonly request: IncomingMessage; readonly socket: Duplex; readonly head: Buffer },
): Promise<void> {
  try {
    const url = new URL(`https://${request.url ?? ""}`);
    const target = await dial(toPlace(url));
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    target.write(head);
    joinStreams(socket, target);
  } catch (error) {
    socket.end(`HTTP/1.1 ${statusOf(error)}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  }
}

async function forward(
  dial: Dial,
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<void> {
  try {
    const url = new URL(request.url ?? "");
    if (url.protocol !== "http:") throw new TypeError("no address of plain HTTP");
    const socket = await dial(toPlace(url));
    response.once("close", () => socket.destroy());
    if (response.destroyed) socket.destroy();
    const onward = startRequest({
      createConnection: () => socket,
      method: request.method ?? "GET",
      path: url.pathname + url.search,
      headers: { ...withoutHops(request), host: url.host, connection: "close" },
    });
    const sending = pipeline(request, onward);
    limitInterimReplies(onward);
    // An answer may come before the request is whole; without one it fails as the sending does.
    sending.catch(() => undefined);
    // A registry that switches protocols unasked ends the connection without an error.
    const closed = new AbortController();
    onward.once("close", () => closed.abort());
    const [reply]: IncomingMessage[] = await once(onward, "response", { signal: closed.signal });
    if (reply === undefined) throw new TypeError("no answer");
    response.writeHead(reply.statusCode ?? 502, withoutHops(reply));
    await pipeline(reply, response);
  } catch (error) {
    if (response.headersSent) response.destroy();
    else response.writeHead(Number.parseInt(statusOf(error), 10), { connection: "close" }).end();
  }
}

function toPlace({ protocol, hostname, port }: URL): Place {
  const usual = protocol === "http:" ? PORTS["http:"] : PORTS["https:"];
  return {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? usual : Number(port),
  };
}

/** The words go to skopeo, which repeats them. */
function statusOf(error: unknown): string {
  if (error instanceof TypeError) return "400 Bad Request";
  const isRefused = hasErrorCode(error, "permission_denied");
  return isRefused ? "403 Forbidden" : "502 Bad Gateway";
}

/** Each line stays one: skopeo reads one way to log in from each. */
function withoutHops({ headersDistinct: headers }: IncomingMessage): OutgoingHttpHeaders {
  const named = connectionOptions(headers["connection"]);
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name) && !named.has(name)),
  );
}
