/** Servers on a free port of the loopback address. */

import assert from "node:assert";
import { randomInt } from "node:crypto";
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

/** Below the ports that the kernel gives to whoever names none. */
const FIRST_NAMED_PORT = 20_000;
const FIRST_GIVEN_PORT = 32_768;

/** A port that nothing uses on any address, for what takes no server; no other program is given it until it is used. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST_NAMED_PORT, FIRST_GIVEN_PORT);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  server.listen(port, "0.0.0.0");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}

/** Ends the server with all its connections. */
export async function closeServer(server: HttpServer): Promise<void> {
  const closed = once(server, "close");
  server.closeAllConnections();
  server.close();
  await closed;
}
