/**
 * The public side of the daemon. Every request passes the same gates in the same order: cross-
 * origin rules, token, user, and only then a service or route.
 */

import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import { errorText } from "../common/errors.ts";
import { basicUser } from "../common/http.ts";
import { createStartLimiter, type StartLimiter } from "../common/start-limiter.ts";
import { faultOfConnection } from "../wire/connection.ts";
import { isAdmitted, tokenOf } from "./auth.ts";
import { handleCors } from "./cors.ts";
import type { Daemon } from "./daemon.ts";
import { sendFault, sendStatus, type Exchange, type Handler } from "./exchange.ts";
import { fileRoutes } from "./files/index.ts";
import { isFromInside } from "./inside.ts";
import { createMetricsHandler } from "./metrics.ts";
import { createRpcServer, sendRpcRefusal, type RpcServer } from "./rpc.ts";
import { envs, health } from "./status.ts";
import type { User } from "./user.ts";

/** Idle connections are the gateway's; the wire promises to keep them for 640 seconds. */
const KEEP_ALIVE_MS = 640_000;
/** A client that has not sent a head by then never will. */
const HEADERS_MS = 10_000;
/** The listener outside looks every second, and passes on whole heads alone; this wakes a rest. */
const CHECK_INTERVAL_MS = 10_000;
const MAX_HEADER_BYTES = 16_384;
/** Above this the sandbox's own descriptors run out. */
const MAX_CONNECTIONS = 1_024;
/** So many calls begin together; between them the streams that run get their turn. */
const CALLS_PER_TURN = 2;

/** Bodies may take their time: uploads and streams of input last as long as they last. */
const SERVER_OPTIONS: ServerOptions = {
  keepAliveTimeout: KEEP_ALIVE_MS,
  headersTimeout: HEADERS_MS,
  requestTimeout: 0,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  maxHeaderSize: MAX_HEADER_BYTES,
};

type Routes = Readonly<Record<string, Readonly<Record<string, Handler>>>>;

/** The public server; it does not listen yet. */
export function createPublicServer(daemon: Daemon): Server {
  const site: Site = {
    daemon,
    rpc: createRpcServer(),
    limiter: createStartLimiter(CALLS_PER_TURN),
    routes: {
      ...fileRoutes,
      "/health": { GET: health },
      "/envs": { GET: envs },
      "/metrics": { GET: createMetricsHandler() },
    },
  };
  const server = createServer(SERVER_OPTIONS, (request, response) => {
    // A reply that cannot be written has no reader left to be told.
    response.on("error", () => undefined);
    const isQuestion = request.url === "/health";
    response.once("close", isQuestion ? daemon.rest.beginQuestion() : daemon.rest.begin());
    // It catches what it throws.
    void serve(site, request, response);
  });
  server.on("error", (error) => {
    daemon.log.write("error", "listener failed", { logger: "envd", error: error.message });
  });
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

interface Site {
  readonly daemon: Daemon;
  readonly rpc: RpcServer;
  readonly limiter: StartLimiter;
  readonly routes: Routes;
}

async function serve(
  site: Site,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    await site.limiter();
    await passGates(site, request, response);
  } catch (error) {
    const fields = { logger: "envd", error: errorText(error) };
    site.daemon.log.write("error", "request failed", fields);
    if (response.headersSent) response.destroy();
    else sendFault(response, 500, "internal error");
  }
}

async function passGates(
  { daemon, rpc, routes }: Site,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { path, query } = splitTarget(request.url ?? "");
  const method = request.method ?? "";
  const fault = faultOfConnection(request);
  if (fault !== undefined) {
    sendFault(response, 400, fault);
    return;
  }
  if (handleCors(request, response)) return;
  const token = tokenOf(request.headers);
  const call = { method, path, token, isFromInside: isFromInside(request) };
  if (!isAdmitted(daemon.settings.current, call)) {
    const text = "Trying to access secured envd without correct access token";
    daemon.log.write("error", text, { logger: "envd" });
    sendFault(
      response,
      401,
      "unauthorized access, please provide a valid access token or method signing if supported",
    );
    return;
  }
  const name = basicUser(request.headers.authorization);
  const namedUser = name === undefined ? undefined : await findUser(daemon, name);
  if (name !== undefined && namedUser === undefined) {
    await sendRpcRefusal(request, response, `invalid username: '${name}'`);
    return;
  }
  const operationId = daemon.log.nextOperation();
  if (rpc.has(path)) {
    await rpc.handle(request, response, { path, origin: { daemon, namedUser, operationId } });
    return;
  }
  const exchange: Exchange = {
    daemon,
    request,
    response,
    query,
    namedUser,
    operationId,
    signal: lostClientSignal(response),
  };
  await route(routes, { path, method }, exchange);
}

async function route(
  routes: Routes,
  target: { readonly path: string; readonly method: string },
  exchange: Exchange,
): Promise<void> {
  const methods = Object.hasOwn(routes, target.path) ? routes[target.path] : undefined;
  if (methods === undefined) {
    exchange.response.writeHead(404, {
      "content-type": "text/plain; charset=utf-8",
      "x-content-type-options": "nosniff",
    });
    exchange.response.end("404 page not found\n");
    return;
  }
  const handler = Object.hasOwn(methods, target.method) ? methods[target.method] : undefined;
  if (handler === undefined) sendStatus(exchange.response, 405);
  else await handler(exchange);
}

/** The path and query of a request as they were sent; nothing is decoded in the path. */
export function splitTarget(url: string): { path: string; query: URLSearchParams } {
  const mark = url.indexOf("?");
  if (mark === -1) return { path: url, query: new URLSearchParams() };
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

async function findUser(daemon: Daemon, name: string): Promise<User | undefined> {
  return (await daemon.accounts.read()).users.get(name);
}

function lostClientSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}
