/**
 * Direct connections to the daemons of sandboxes whose service is this process, with the same
 * requests. Requests to a sandbox that does not run go to the gateway, which wakes sandboxes and
 * reports their faults.
 */

import type { Socket } from "node:net";
import { Pool, type Dispatcher } from "undici";
import { SandboxError } from "../common/errors.ts";
import { MAX_DAEMON_REPLIES } from "../common/interim-replies.ts";
import { shortageOf } from "../common/shortage.ts";
import { ENVD_PORT } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import { limited } from "./interim-limit.ts";

/** One run of a sandbox; another one begins when it is resumed. */
export interface DirectRun {
  /** Fires at pause, kill and death; every connection that was dialled is cut then. */
  readonly ended: AbortSignal;
  /** @throws SandboxError unavailable when nothing listens there. */
  dial(port: number, signal: AbortSignal): Promise<Socket>;
  /** Ends waiting calls when the daemon does not answer its host either. */
  readonly watch: { wait(onSilence: (error: Error) => void): () => void };
}

/** The run of a sandbox at this moment; undefined for one that does not run here. */
export type FindRun = (sandboxId: string) => DirectRun | undefined;

/** The dispatchers of local sandboxes; disposal closes their connections. */
export interface DirectConnections extends AsyncDisposable {
  /** Sends to the daemon of a sandbox that runs here, and to the gateway otherwise. */
  to(sandboxId: string): Dispatcher;
}

/** To one sandbox: the limit of its gateway; each running process holds one. */
const MAX_CONNECTIONS = 512;
/** Idle connections are closed: each takes memory in the sandbox. */
const IDLE_MS = 4_000;
const ORIGIN = "http://localhost";
const STOPPED = "the sandbox was paused or ended during the call";

export function startDirectConnections(gateway: Dispatcher, find: FindRun): DirectConnections {
  const pools = new Map<DirectRun, Pool>();

  function open(run: DirectRun): Pool {
    const pool = new Pool(ORIGIN, {
      connections: MAX_CONNECTIONS,
      allowH2: false,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      connect: (_target, callback) => void dial(run, callback),
    });
    pools.set(run, pool);
    const close = () => {
      pools.delete(run);
      // Its requests fail with the connections, which are cut at the same time.
      void pool.destroy(new SandboxError("unavailable", STOPPED));
    };
    run.ended.addEventListener("abort", close, { once: true });
    return pool;
  }

  return {
    to: (sandboxId) =>
      gateway.compose((dispatch) => (options, handler) => {
        const run = find(sandboxId);
        if (run === undefined) return dispatch(options, handler);
        const pool = pools.get(run) ?? open(run);
        return pool.dispatch(options, endIfSilent(limited(handler, MAX_DAEMON_REPLIES), run));
      }),
    async [Symbol.asyncDispose]() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
      pools.clear();
    },
  };
}

/** The same handler; its request fails when the daemon stops before a reply begins. */
function endIfSilent(
  handler: Dispatcher.DispatchHandler,
  { watch }: DirectRun,
): Dispatcher.DispatchHandler {
  const waits: (() => void)[] = [];
  const endWait = () => waits.pop()?.();
  return {
    onRequestStart(controller, context) {
      waits.push(watch.wait((error) => controller.abort(error)));
      handler.onRequestStart?.(controller, context);
    },
    onRequestUpgrade(...facts) {
      endWait();
      handler.onRequestUpgrade?.(...facts);
    },
    onResponseStart(...facts) {
      endWait();
      handler.onResponseStart?.(...facts);
    },
    onResponseData: (controller, chunk) => handler.onResponseData?.(controller, chunk),
    onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
    onResponseError(controller, error) {
      endWait();
      handler.onResponseError?.(controller, error);
    },
  };
}

export type Connected = (
  ...result: [error: null, socket: Socket] | [error: Error, socket: null]
) => void;

/** Never rejects. A failure has the gateway's message, without the path of a socket. */
async function dial(run: DirectRun, callback: Connected): Promise<void> {
  let socket: Socket;
  try {
    socket = await run.dial(ENVD_PORT, run.ended);
  } catch (cause) {
    callback(toDialError(run, cause), null);
    return;
  }
  callback(null, socket);
}

function toDialError(run: DirectRun, cause: unknown): SandboxError {
  const shortage = shortageOf(cause);
  if (run.ended.aborted)
    return new SandboxError("unavailable", MESSAGES.sandboxUnreachable, { cause });
  if (shortage === undefined)
    return new SandboxError("unavailable", MESSAGES.portClosed, { cause });
  return new SandboxError("unavailable", shortage.message, { cause, hint: shortage.hint });
}
