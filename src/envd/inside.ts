/**
 * The daemon for programs of its sandbox, at port 49983 of loopback: the same server and the same
 * rules as for clients outside, but `GET /envs` needs no token, because each process of the sandbox
 * has these variables anyway.
 */

import type { IncomingMessage, Server as HttpServer } from "node:http";
import { createServer } from "node:net";
import { ENVD_PORT } from "../wire/headers.ts";
import type { Daemon } from "./daemon.ts";

/** Of programs; connections of clients outside are counted apart. */
const MAX_CONNECTIONS = 128;

/** Listens, as long as no program of the sandbox has the port. */
export function listenInside(server: HttpServer, daemon: Daemon): void {
  const inside = createServer((socket) => server.emit("connection", socket));
  inside.maxConnections = MAX_CONNECTIONS;
  inside.on("error", (error) => {
    daemon.log.write("warn", "no listener inside", { logger: "envd", error: error.message });
  });
  inside.listen({ host: "127.0.0.1", port: ENVD_PORT });
}

/** Whether a request came from inside: the listener for clients is no network socket. */
export function isFromInside({ socket }: IncomingMessage): boolean {
  return socket.localPort === ENVD_PORT;
}
