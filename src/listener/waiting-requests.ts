/** Requests that a connection has sent ahead, before it has the replies to those before them. */

import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** Clients wait for each reply; what was read at once may hold thousands of requests. */
const MAX_WAITING = 32;

/**
 * Ends connections that send too far ahead: all of what was read at once is taken before anything else
 * of the service goes on.
 */
export function createWaitingRequests(): {
  admit(socket: Duplex, response: ServerResponse): boolean;
} {
  const counts = new WeakMap<Duplex, number>();
  return {
    /** Whether the request may be answered; if not, its connection has ended. */
    admit(socket, response) {
      const waiting = counts.get(socket) ?? 0;
      if (waiting >= MAX_WAITING) socket.destroy();
      if (socket.destroyed) return false;
      counts.set(socket, waiting + 1);
      response.once("close", () => counts.set(socket, (counts.get(socket) ?? 1) - 1));
      return true;
    },
  };
}
