/** The host's side of the daemon: a socket that nothing in the sandbox can reach. */

import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { errorText } from "../../common/errors.ts";
import { sendJson } from "../../common/http.ts";
import { createBaseline } from "../changes/baseline.ts";
import { SANDBOX_TREE, type TreePlace } from "../changes/tree.ts";
import type { Daemon } from "../daemon.ts";
import { sendFault, sendStatus, toFault } from "../exchange.ts";
import type { Programs } from "../programs.ts";
import { splitTarget } from "../server.ts";
import { createBaselineHandler, createChangesHandler, type ChangesSource } from "./changes.ts";
import type { ControlExchange, ControlHandler } from "./exchange.ts";
import { init } from "./init.ts";
import { createLogsHandler, forgetLog, keptLog } from "./logs.ts";
import { prepareSpawner } from "./prepare-spawner.ts";
import { createReachHandler, type Reach } from "./reach.ts";
import { createTunnelHandler } from "./tunnel.ts";
import { usage } from "./usage.ts";

export interface ControlOptions {
  readonly daemon: Daemon;
  /** Lets the public side listen; does nothing when it listens already. */
  readonly open: () => Promise<void>;
  /** In the place of a connection, where a test has the network of a Pod. */
  readonly reach?: Reach;
  /** What snapshots are made from; in tests a directory. */
  readonly changes?: ChangesSource;
  /** Undefined for a daemon that is not alone with the programs of its sandbox. */
  readonly programs?: Programs | undefined;
}

/** The control server; it does not listen yet. */
export function createControlServer(options: ControlOptions): Server {
  const changes = options.changes ?? createSource(SANDBOX_TREE);
  const routes: Readonly<Record<string, ControlHandler>> = {
    "POST /init": init,
    "POST /baseline": createBaselineHandler(changes),
    "GET /changes": createChangesHandler(changes),
    "GET /health": health,
    "GET /isolation": isolation,
    "GET /log": keptLog,
    "POST /forget": forgetLog,
    "GET /logs": createLogsHandler(),
    "GET /usage": usage,
    "POST /reach": createReachHandler(options.reach),
    "POST /rest": idle,
    ...programRoutes(options.programs),
  };
  const server = createServer({ requestTimeout: 0 }, (request, response) => {
    // A reply that cannot be written has no reader left to be told.
    response.on("error", () => undefined);
    const { path } = splitTarget(request.url ?? "");
    const name = `${request.method} ${path}`;
    const handler = Object.hasOwn(routes, name) ? routes[name] : undefined;
    if (handler === undefined) sendStatus(response, 404);
    // It catches what it throws.
    else void serve(handler, options, { request, response });
  });
  server.on("error", (error) => logFailure(options.daemon, error));
  const tunnel = createTunnelHandler();
  server.on("upgrade", (request, socket, head) => {
    tunnel({ request, socket, head }).catch((error: unknown) => {
      logFailure(options.daemon, error);
      socket.destroy();
    });
  });
  return server;
}

/** The changes of a tree since its baseline. */
export function createSource(place: TreePlace): ChangesSource {
  return { place, baseline: createBaseline(place) };
}

async function serve(
  handler: ControlHandler,
  { daemon, open }: ControlOptions,
  pair: { readonly request: IncomingMessage; readonly response: ServerResponse },
): Promise<void> {
  try {
    await handler({ daemon, open, ...pair });
  } catch (error) {
    logFailure(daemon, error);
    const { status, message } = toFault(error);
    if (pair.response.headersSent) pair.response.destroy();
    else sendFault(pair.response, status, message);
  }
}

function logFailure(daemon: Daemon, error: unknown): void {
  daemon.log.write("error", "control request failed", { logger: "envd", error: errorText(error) });
}

/** GET /health: the daemon runs, whether or not it was told anything yet. */
async function health({ response }: ControlExchange): Promise<void> {
  sendStatus(response, 204, { "cache-control": "no-store" });
}

/** POST /rest: the daemon will not be asked for anything for a while. */
async function idle({ daemon, response }: ControlExchange): Promise<void> {
  await prepareSpawner(daemon);
  daemon.rest.now();
  sendStatus(response, 204, { "cache-control": "no-store" });
}

/** GET /isolation: what the kernel says of the separation of this daemon's world. */
async function isolation({ response }: ControlExchange): Promise<void> {
  const [idMap, status] = await Promise.all([
    readFile("/proc/self/uid_map", "utf8"),
    readFile("/proc/self/status", "utf8"),
  ]);
  const seccomp = /^Seccomp:\s*([0-9]+)/m.exec(status)?.[1];
  const body = { idMap, seccomp: seccomp === undefined ? null : Number(seccomp) };
  sendJson(response, 200, { body });
}

/**
 * POST /stop and POST /continue: for the time in which a Pod is being paused. A daemon that cannot
 * stop programs does not know the paths.
 */
function programRoutes(programs: Programs | undefined): Readonly<Record<string, ControlHandler>> {
  if (programs === undefined) return {};
  return {
    "POST /stop": async ({ response }) => {
      await programs.stop();
      sendStatus(response, 204);
    },
    "POST /continue": async ({ response }) => {
      await programs.goOn();
      sendStatus(response, 204);
    },
  };
}
