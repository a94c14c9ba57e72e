/** A program in the place of a daemon: it answers as one, and floods whoever reads its log. */

import { once } from "node:events";
import type { Server, Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LogFlood } from "./log-floods.ts";

/** Takes the connections of a server; `next` chooses what the next reader of the log gets. */
export function serveFloods(server: Server, next: () => LogFlood): void {
  server.on("connection", (socket) => {
    // Whoever reads too much of it goes away in the middle.
    socket.on("error", () => socket.destroy());
    socket.once("data", (chunk) => {
      socket.resume();
      if (chunk.toString("latin1").startsWith("GET /logs")) void pour(socket, next());
      else socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    });
  });
}

/** As fast as it is read, until the reader goes. */
async function pour(socket: Socket, { head, body, endsAfter }: LogFlood): Promise<void> {
  socket.write(head);
  for (let sent = 0; sent < endsAfter && !socket.destroyed; sent += body.length) {
    if (socket.write(body)) await nextTurn();
    else await drained(socket);
  }
  socket.end();
}

async function drained(socket: Socket): Promise<void> {
  const over = new AbortController();
  const end = () => over.abort();
  socket.once("close", end);
  try {
    await once(socket, "drain", { signal: over.signal });
  } catch {
    // The reader went away.
    socket.destroy();
  } finally {
    socket.off("close", end);
  }
}
