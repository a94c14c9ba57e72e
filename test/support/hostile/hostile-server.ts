/** A server that answers every connection with bytes that the test chose, whatever it was asked. */

import { createServer, type Socket } from "node:net";
import { listenOnLoopback } from "../loopback.ts";

export interface HostileServer extends AsyncDisposable {
  readonly port: number;
  /** What the next connections get, piece by piece; the line is cut then, unless it stays open. */
  answer(pieces: readonly Uint8Array[], options: { readonly staysOpen: boolean }): void;
}

/** Starts the server on a loopback port; it answers with nothing until it is told. */
export async function startHostileServer(): Promise<HostileServer> {
  let pieces: readonly Uint8Array[] = [];
  let staysOpen = false;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.once("data", () => {
      socket.resume();
      for (const piece of pieces) socket.write(piece);
      if (!staysOpen) socket.end();
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    answer(next, options) {
      pieces = next;
      staysOpen = options.staysOpen;
    },
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      for (const socket of sockets) socket.destroy();
      await closed.promise;
    },
  };
}
