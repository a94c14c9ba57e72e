/** The connections of this process to one container, which can be cut for a moment. */

import type { Socket } from "node:net";
import { orCanceled } from "../../common/or-canceled.ts";

export interface Connections {
  /** Dials and keeps account of the connection; while connections are cut it waits. */
  open(dial: () => Promise<Socket>, signal: AbortSignal): Promise<Socket>;
  /** Ends every connection, and lets none come about until the work is done. */
  whileCut(work: () => Promise<void>): Promise<void>;
}

export function createConnections(): Connections {
  const sockets = new Set<Socket>();
  // What a new connection waits for.
  const cuts = new Set<Promise<void>>();
  return {
    async open(dial, signal) {
      for (;;) {
        for (const cut of cuts) await orCanceled(cut, signal, "dial was canceled");
        const socket = await dial();
        if (cuts.size === 0) {
          sockets.add(socket);
          socket.once("close", () => sockets.delete(socket));
          return socket;
        }
        // It was cut meanwhile.
        await destroy(socket);
      }
    },
    async whileCut(work) {
      const { promise, resolve } = Promise.withResolvers<void>();
      cuts.add(promise);
      try {
        await Promise.all([...sockets].map(destroy));
        await work();
      } finally {
        cuts.delete(promise);
        resolve();
      }
    },
  };
}

async function destroy(socket: Socket): Promise<void> {
  if (socket.closed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.once("close", () => resolve());
  socket.destroy();
  await promise;
}
