/**
 * The daemon inside a sandbox. It inherits two listening sockets: descriptor 3 for clients,
 * descriptor 4 for its host. Until the host has spoken, nobody is served on 3: connections wait.
 */

import { once } from "node:events";
import type { Server } from "node:http";
// oxlint-disable-next-line import/no-unassigned-import -- its effect must come before the library
import "../common/base64.ts";
// oxlint-disable-next-line import/no-unassigned-import -- its effect must come before the library
import "../common/headers.ts";
import { createControlServer } from "./control/server.ts";
import { createDaemon } from "./daemon.ts";
import { createPublicServer } from "./server.ts";

const PUBLIC_FD = 3;
const CONTROL_FD = 4;
/** What processes and files of the sandbox start with. */
const UMASK = 0o022;

process.umask(UMASK);
const daemon = createDaemon(import.meta.dirname);
const publicServer = createPublicServer(daemon);
let opening: Promise<void> | undefined;
const controlServer = createControlServer({
  daemon,
  open: async () => (opening ??= listenOn(publicServer, PUBLIC_FD)),
});
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    daemon.processes[Symbol.dispose]();
    process.exit(0);
  });
}
// A daemon that cannot listen ends, and is started again.
void listenOn(controlServer, CONTROL_FD);

async function listenOn(server: Server, fd: number): Promise<void> {
  server.listen({ fd });
  await once(server, "listening");
}
