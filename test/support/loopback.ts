/** Servers on a free port of the loopback address. */

import assert from "node:assert";
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { createServer, type Server } from "node:net";

/** Has a server listen; returns the port. */
export async function listenOnLoopback(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  return address.port;
}

/** A port that nothing uses, for what takes no server. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  const port = await listenOnLoopback(server);
  server.close();
  await once(server, "close");
  return port;
}

/** Ends the server with all its connections. */
export async function closeServer(server: HttpServer): Promise<void> {
  const closed = once(server, "close");
  server.closeAllConnections();
  server.close();
  await closed;
}
