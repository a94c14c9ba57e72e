/**
 * Run as a program of its own, so that what it does costs the test nothing: floods a sandbox through
 * the service until it is killed. Words: kind, address of the service, headers as JSON.
 */

import { request } from "node:http";
import { createConnection } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { envelope } from "../raw-call.ts";

const [kind = "", address = "", headersText = "{}"] = process.argv.slice(2);
const url = new URL(address);
const headers: Readonly<Record<string, string>> = JSON.parse(headersText);

const READERS = 50;
const CONNECTIONS = 400;
const YES = { process: { cmd: "/bin/sh", args: ["-c", "exec yes"] }, tag: "flood" };

function openStream(method: string, message: object, read: boolean): void {
  const call = request(`${address}/${method}`, {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
    },
  });
  call.on("error", () => undefined);
  call.on("response", (reply) => {
    reply.on("error", () => undefined);
    if (read) reply.resume();
  });
  call.end(envelope(JSON.stringify(message)));
}

/** Opens and drops them, each with a request that is not finished. */
async function connectOnAndOn(): Promise<void> {
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const text = `GET /health HTTP/1.1\r\nHost: x\r\n${head.join("")}\r\n`;
  const sockets: ReturnType<typeof createConnection>[] = [];
  for (;;) {
    const socket = createConnection(Number(url.port), url.hostname);
    socket.on("error", () => socket.destroy());
    socket.write(text);
    sockets.push(socket);
    if (sockets.length > CONNECTIONS) sockets.shift()?.destroy();
    await nextTurn();
  }
}

if (kind === "connections") await connectOnAndOn();
if (kind === "watch") {
  const message = { path: "/var/tmp", recursive: true };
  openStream("filesystem.Filesystem/WatchDir", message, true);
}
if (kind === "output") openStream("process.Process/Start", YES, true);
if (kind === "slow readers") {
  openStream("process.Process/Start", YES, false);
  const joined = { process: { tag: "flood" } };
  for (let index = 1; index < READERS; index += 1) {
    openStream("process.Process/Connect", joined, false);
  }
}
