/** Has a server listen on a free port of the loopback address. */

import assert from "node:assert";
import { once } from "node:events";
import type { Server } from "node:net";

/** Returns the port. */
export async function listenOnLoopback(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  return address.port;
}
