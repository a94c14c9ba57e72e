/** The engine without isolation: the suite of all engines, and a daemon of a few lines. */

import { createServer, type Socket } from "node:net";
import { userInfo } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { describeEngine, type EngineHost } from "../../suites/engine.ts";
import { DAEMON_PID } from "../../support/daemon/collect.ts";
import { createBareEngine } from "../../support/engine/bare-engine.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Answers on both sockets with the number of the descriptor, and joins tunnels to TCP ports. */
const DAEMON = `
const http = require("node:http"), net = require("node:net");
http.createServer((_q, r) => r.end("three")).listen({ fd: 3 });
const control = http.createServer((_q, r) => r.end("four"));
control.on("upgrade", (call, socket) => {
  const port = net.connect(Number(call.url.split("/")[2]), "127.0.0.1");
  port.on("error", () => socket.end("HTTP/1.1 502 Bad Gateway\\r\\nContent-Length: 0\\r\\n\\r\\n"));
  port.on("connect", () => {
    socket.write("HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: tcp\\r\\n\\r\\n");
    socket.pipe(port).pipe(socket);
  });
});
control.listen({ fd: 4 });
`;

const LIMITS = { memoryMb: 64, cpus: 1, diskMb: 64, pids: 64 };

function specOf(directory: string) {
  const rest = { layers: [], limits: LIMITS, hostname: "sandbox", egress: "none" as const };
  return { id: "one", directory, ...rest };
}

async function startContainer(directory: string) {
  const engine = createBareEngine({
    command: [process.execPath, "-e", DAEMON],
    perlDirectory: PERL_DIRECTORY,
  });
  return engine.create(specOf(directory), new AbortController().signal);
}

async function startBareHost(): Promise<EngineHost> {
  const folder = await makeTempFolder();
  const bundle = resolve(import.meta.dirname, "../../../dist/envd.cjs");
  const engine = createBareEngine({
    command: [process.execPath, bundle],
    perlDirectory: PERL_DIRECTORY,
  });
  const place = (id: string) => join(folder.path, id);
  let count = 0;
  return {
    engine,
    user: userInfo().username,
    directoryOf: place,
    specOf: (id) => ({ ...specOf(place(id)), id }),
    async create({ signal = new AbortController().signal } = {}) {
      count += 1;
      const id = `c${count}`;
      return engine.create({ ...specOf(place(id)), id }, signal);
    },
    async endInit(container) {
      await initDaemon(container);
      // The reply ends with the daemon.
      await runInside(container, `kill -TERM ${DAEMON_PID}`, userInfo().username).catch(
        () => undefined,
      );
    },
    [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose](),
  };
}

describe("the bare engine", () => {
  describeEngine(startBareHost);
});

async function ask(socket: Socket): Promise<string> {
  socket.write("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return (await text(socket)).split("\r\n\r\n")[1] ?? "";
}

test("both sockets and any port are reached", async () => {
  await using folder = await makeTempFolder();
  await using container = await startContainer(join(folder.path, "c"));
  const { signal } = new AbortController();
  expect(await ask(await container.dialPublic(signal))).toContain("three");
  expect(await ask(await container.dialControl(signal))).toContain("four");
  const server = createServer((socket) => socket.end("hello"));
  const port = await listenOnLoopback(server);
  expect(await text(await container.dial(port, signal))).toBe("hello");
  server.close();
  await expect(container.dial(port, signal)).rejects.toMatchObject({ code: "unavailable" });
});

test("a path longer than a socket address is reached all the same", async () => {
  await using folder = await makeTempFolder();
  await using container = await startContainer(join(folder.path, "c".repeat(200)));
  const { signal } = new AbortController();
  expect(await ask(await container.dialControl(signal))).toContain("four");
});
