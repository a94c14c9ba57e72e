/** The end of a connection whose client may never end its side. */

import type { Duplex } from "node:stream";

const MAX_CLOSE_MS = 5_000;

/** Ends our side, behind some last bytes, and the whole connection a while later. */
export function endConnection(socket: Duplex, last = ""): void {
  socket.end(last, () => {
    const timer = setTimeout(() => socket.destroy(), MAX_CLOSE_MS);
    socket.once("close", () => clearTimeout(timer));
  });
}
