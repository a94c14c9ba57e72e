/** The host's side of the daemon: a socket that nothing in the sandbox can reach. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { errorText } from "../../common/errors.ts";
import { createBaseline } from "../changes/baseline.ts";
import { SANDBOX_TREE, type TreePlace } from "../changes/tree.ts";
import type { Daemon } from "../daemon.ts";
import { sendFault, sendStatus, toFault } from "../exchange.ts";
import type { Programs } from "../programs.ts";
import { splitTarget } from "../server.ts";
import { createBaselineHandler, createChangesHandler, type ChangesSource } from "./changes.ts";
import type { ControlHandler } from "./exchange.ts";
import { health } from "./health.ts";
import { idle } from "./idle.ts";
import { init } from "./init.ts";
import { isolation } from "./isolation.ts";
import { forgetLog, keptLog } from "./kept-log.ts";
import { createLogsHandler } from "./logs.ts";
import { programRoutes } from "./programs.ts";
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
