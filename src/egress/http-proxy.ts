/**
 * Passes requests of plain HTTP on to the host that each one names. Every request is read and
 * written anew, so no byte of a sandbox reaches a server that was not looked at.
 */

import { once } from "node:events";
import {
  createServer,
  request as startRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import {
  connectionOptions,
  findForbiddenOption,
  HOP_BY_HOP,
} from "../common/connection-headers.ts";
import { limitInterimReplies } from "../common/interim-replies.ts";
import { inLoopTurns, keepingLittle, MAX_KEPT_BYTES } from "../common/loop-turns.ts";
import { toHostName } from "./host-names.ts";
import type { Policies } from "./policies.ts";
import { dialName } from "./resolver.ts";
import type { TlsProxyOptions } from "./tls-proxy.ts";

const HTTP_PORT = 80;
const MAX_HEADER_BYTES = 16_384;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often that is looked at. */
const CHECK_MS = 1_000;
const IDLE_MS = 600_000;
/** RFC 9110, 15: statuses below are interim. */
const MIN_FINAL_STATUS = 200;
/** Without them a body would be taken for a request of its own. */
const FRAMING = new Set(["content-length", "transfer-encoding"]);

/** Listens; a request for a host that its sandbox may not reach is refused by a reply. */
export async function startHttpProxy(options: TlsProxyOptions): Promise<void> {
  const { policies, resolver } = options;
  const dial: WebServerOptions["dial"] = async (name, sender) =>
    dialName(resolver, { sender, name, port: HTTP_PORT });
  const server = createWebServer({ policies, dial });
  server.listen(options.port, options.address);
  await once(server, "listening");
}

export interface WebServerOptions {
  readonly policies: Policies;
  /** A connection to the host of a name, for a sandbox; undefined when it leads nowhere. */
  readonly dial: (name: string, sender: string) => Promise<Socket | undefined>;
}

/** The proxy's server; it does not listen yet. */
export function createWebServer(options: WebServerOptions): Server {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      highWaterMark: MAX_KEPT_BYTES,
      connectionsCheckingInterval: CHECK_MS,
      requireHostHeader: false,
      noDelay: true,
    },
    // It ends the response itself, whatever comes.
    (request, response) => void serve(options, { request, response }),
  );
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  // A body may take as long as its bytes keep coming.
  server.requestTimeout = 0;
  server.timeout = IDLE_MS;
  server.on("connection", (socket: Socket) => {
    const end = () => void socket.destroy();
    const release = options.policies.hold(socket.remoteAddress ?? "", { name: undefined, end });
    if (release === undefined) end();
    else socket.once("close", release);
  });
  return server;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function serve(options: WebServerOptions, exchange: Exchange): Promise<void> {
  const { request, response } = exchange;
  // A request loses its socket when that ends.
  const { socket } = request;
  const sender = socket.remoteAddress ?? "";
  const option = findForbiddenOption(request.headersDistinct["connection"]);
  if (option !== undefined) return refuse(exchange, 400, `Connection may not name ${option}`);
  const name = nameOf(request);
  if (name === undefined) return refuse(exchange, 400, "the request names no host in a plain way");
  if (!options.policies.mayReach(sender, name)) {
    return refuse(exchange, 403, "the network rules of this sandbox do not allow this host");
  }
  const end = () => void socket.destroy();
  const release = options.policies.hold(sender, { name, end });
  if (release === undefined) return refuse(exchange, 503, "too many connections");
  try {
    if (!(await pass(options, exchange, name))) refuse(exchange, 502, "the host does not answer");
    response.end();
  } catch {
    // Either side may vanish at any moment, and a reply may have a head that cannot be sent: what is
    // open ends, and nothing more is written.
    end();
  } finally {
    release();
  }
}

/** The one host of a request; undefined where it or the body's end could be read in two ways. */
function nameOf({ method, url = "", headers, rawHeaders }: IncomingMessage): string | undefined {
  const hosts = rawHeaders.filter((_text, index) => {
    return index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "host";
  });
  const isPath = url.startsWith("/") || (url === "*" && method === "OPTIONS");
  const coding = headers["transfer-encoding"]?.toLowerCase() ?? "chunked";
  if (hosts.length !== 1 || !isPath || coding !== "chunked") return undefined;
  return toHostName((hosts[0] ?? "").replace(/:80$/, ""));
}

/** False when nothing was sent to the client yet and nothing will come. */
async function pass(
  { dial }: WebServerOptions,
  { request, response }: Exchange,
  name: string,
): Promise<boolean> {
  const socket = await dial(name, request.socket.remoteAddress ?? "");
  if (socket === undefined) return false;
  response.once("close", () => socket.destroy());
  if (response.destroyed) socket.destroy();
  const { method = "GET", url = "/" } = request;
  const headers = { ...withoutHops(request), host: name, connection: "close" };
  const createConnection = () => keepingLittle(socket);
  const onward = startRequest({ createConnection, method, path: url, headers });
  limitInterimReplies(onward);
  // What goes wrong is told by the promises below; later than them it changes nothing.
  onward.on("error", () => undefined);
  // Waited for before the body is sent: a server may answer first.
  // A server that switches protocols unasked ends the connection without an error.
  const closed = new AbortController();
  onward.once("close", () => closed.abort());
  const answered = once(onward, "response", { signal: closed.signal });
  const sending = pipeline(request, inLoopTurns(onward), onward);
  const [reply]: IncomingMessage[] = await Promise.race([
    answered,
    sending.then(async () => answered),
  ]);
  // 101 without an upgrade: no client has asked for it, and it would wait for another reply.
  if (reply === undefined || (reply.statusCode ?? 0) < MIN_FINAL_STATUS) return false;
  const replyHeaders = withoutHops(reply);
  // Such a client would take the sizes of chunks for the body.
  if (request.httpVersion === "1.0") delete replyHeaders["transfer-encoding"];
  response.writeHead(reply.statusCode ?? 502, reply.statusMessage, replyHeaders);
  await pipeline(reply, inLoopTurns(response), response);
  onward.destroy();
  return true;
}

function withoutHops(message: IncomingMessage): NodeJS.Dict<string | string[]> {
  const { headers, headersDistinct } = message;
  const named = connectionOptions(headersDistinct["connection"]);
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => FRAMING.has(name) || (!HOP_BY_HOP.has(name) && !named.has(name)),
    ),
  );
}

function refuse({ request, response }: Exchange, status: number, reason: string): void {
  // What is left of a body is not waited for.
  request.resume();
  response.writeHead(status, { "content-type": "text/plain", connection: "close" });
  response.end(`sandbox: ${reason}\n`);
}
