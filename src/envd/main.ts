/**
 * The daemon inside a sandbox. It inherits two listening sockets: descriptor 3 for clients,
 * descriptor 4 for its host. Until the host has spoken, no client is served on 3: connections wait.
 * In a Pod both servers are behind one listener.
 * Where these are sockets of loopback, each connection begins with the host's secret.
 */

import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Server as TcpServer } from "node:net";
import { errorText } from "../common/errors.ts";
import { catchUncaught } from "../common/uncaught.ts";
import { SANDBOX_TREE } from "./changes/tree.ts";
import { createControlServer, createSource } from "./control/server.ts";
import { createDaemon } from "./daemon.ts";
import { guardBySecret, type Guard, type GuardedListener } from "./guarded-listener.ts";
import { listenInside } from "./inside.ts";
import { createPodListener, listenAddress, readPodIdentity } from "./pod-listener.ts";
import { createPrograms } from "./programs.ts";
import { createPublicServer } from "./server.ts";
import { createLoopWaker } from "./wake-loop.ts";

const PUBLIC_FD = 3;
const CONTROL_FD = 4;
/** What processes and files of the sandbox start with. */
const UMASK = 0o022;
/** It is started again. */
const EXIT_BROKEN = 70;

/** Where programs of the sandbox can connect too: the word before the file of the host's secret. */
const SECRET_WORD = "secret";

process.umask(UMASK);
const [word, secretFile = ""] = process.argv.slice(4);
const guard =
  word === SECRET_WORD
    ? { secret: readFileSync(secretFile), onClosed: createLoopWaker(touchListeners) }
    : undefined;
const guarded: GuardedListener[] = [];
const daemon = createDaemon(import.meta.dirname, {
  areStopped: () => programs?.areStopped ?? false,
});
// What one call breaks must not end the processes of all others.
catchUncaught({
  fail: () => false,
  report(error) {
    const fields = { logger: "envd", error: errorText(error) };
    daemon.log.write("error", "uncaught error", fields);
  },
  giveUp: () => process.exit(EXIT_BROKEN),
});
const publicServer = createPublicServer(daemon);
let opening: Promise<void> | undefined;
const changes = createSource(SANDBOX_TREE);
const identity = readPodIdentity(process.argv);
const programs =
  identity === undefined ? undefined : createPrograms(() => publicServer.closeAllConnections());
const controlServer = createControlServer({
  daemon,
  changes,
  programs,
  open: async () => (opening ??= openPublic()),
});
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    daemon.processes[Symbol.dispose]();
    process.exit(0);
  });
}
if (identity?.keepsBaseline === true) {
  // Its fault is told to the host, which asks for it before any program runs.
  changes.baseline.take().catch(() => undefined);
}
// A daemon that cannot listen ends, and is started again.
listenForHost().catch(() => process.exit(EXIT_BROKEN));

async function listenForHost(): Promise<void> {
  if (identity === undefined) return listenOn(controlServer, CONTROL_FD);
  const { settings } = daemon;
  const servers = { publicServer, controlServer };
  const listener = createPodListener({ identity, ...servers, settings, programs });
  listener.listen(listenAddress());
  await once(listener, "listening");
}

async function openPublic(): Promise<void> {
  if (identity === undefined) await listenOn(publicServer, PUBLIC_FD);
  // A daemon that shares its world shares its ports with others.
  if (daemon.identityDirectory !== undefined) listenInside(publicServer, daemon);
}

async function listenOn(server: Server, fd: number): Promise<void> {
  const listener = guard === undefined ? server : guardServer(server, guard);
  listener.listen({ fd });
  await once(listener, "listening");
}

function guardServer(server: Server, by: Guard): TcpServer {
  const made = guardBySecret(server, by);
  guarded.push(made);
  return made.listener;
}

function touchListeners(): void {
  for (const { touch } of guarded) touch();
}
