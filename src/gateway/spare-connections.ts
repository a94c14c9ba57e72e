/** Connections dialled ahead into services of templates: each carries one request, like any other. */

import type { Socket } from "node:net";
import type { Endpoint } from "../sandboxes/run.ts";

/** Less than such a service keeps an idle connection (`IDLE_TIMEOUT_S` of the interpreter). */
const MAX_IDLE_MS = 300_000;

export interface SpareConnections {
  /** A connection that is open and was never used; undefined where there is none. */
  take(endpoint: Endpoint, port: number): Socket | undefined;
  /** Dials one for the next request, in the background, where a service of the template listens. */
  prepare(endpoint: Endpoint, port: number): void;
}

export function createSpareConnections(): SpareConnections {
  /** One at most for each port of a run: the end of the run closes its connections. */
  const spares = new WeakMap<Endpoint, Map<number, Promise<void> | Socket>>();

  function portsOf(endpoint: Endpoint): Map<number, Promise<void> | Socket> {
    const ports = spares.get(endpoint) ?? new Map<number, Promise<void> | Socket>();
    spares.set(endpoint, ports);
    return ports;
  }

  async function dial(endpoint: Endpoint, port: number): Promise<void> {
    const ports = portsOf(endpoint);
    try {
      const socket = await endpoint.dial(port, endpoint.ended);
      keep(socket);
      ports.set(port, socket);
      socket.once("close", () => {
        if (ports.get(port) === socket) ports.delete(port);
      });
    } catch {
      // The next request dials by itself and reports what is wrong.
      ports.delete(port);
    }
  }

  return {
    take(endpoint, port) {
      const socket = portsOf(endpoint).get(port);
      if (socket === undefined || socket instanceof Promise) return undefined;
      portsOf(endpoint).delete(port);
      if (isUnused(socket)) return release(socket);
      socket.destroy();
      return undefined;
    },
    prepare(endpoint, port) {
      if (!endpoint.servicePorts.includes(port) || endpoint.httpsPorts.includes(port)) return;
      if (endpoint.ended.aborted || portsOf(endpoint).has(port)) return;
      portsOf(endpoint).set(port, dial(endpoint, port));
    },
  };
}

/**
 * Neither closed by the service nor written to before a request. The end of a service takes some
 * milliseconds to arrive: a request meanwhile fails, and is not repeated, since it may have run.
 */
function isUnused(socket: Socket): boolean {
  return !socket.destroyed && socket.readable && socket.writable && socket.readableLength === 0;
}

/** A connection that waits does not keep the process alive. */
function keep(socket: Socket): void {
  socket.setTimeout(MAX_IDLE_MS, () => socket.destroy()).unref();
}

function release(socket: Socket): Socket {
  return socket.setTimeout(0).removeAllListeners("timeout").ref();
}
