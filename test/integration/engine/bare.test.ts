/** The engine without isolation, with a daemon of a few lines in the place of the real one. */

import { access } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createBareEngine } from "../../../src/engine/bare/bare.ts";
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

async function startContainer(directory: string, daemon = DAEMON) {
  const engine = createBareEngine({
    command: [process.execPath, "-e", daemon],
    perlDirectory: PERL_DIRECTORY,
  });
  const spec = {
    id: "one",
    directory,
    layers: [],
    limits: LIMITS,
    hostname: "sandbox",
    egress: "none" as const,
  };
  return engine.create(spec, new AbortController().signal);
}

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
  const server = createServer((socket) => socket.end("hello")).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
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

test("its end removes the folder and tells the reason", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "c");
  const container = await startContainer(directory);
  await container[Symbol.asyncDispose]();
  expect(await container.exit).toEqual({ reason: "killed" });
  await expect(access(directory)).rejects.toMatchObject({ code: "ENOENT" });
});

test("a daemon that ends by itself ends the container", async () => {
  await using folder = await makeTempFolder();
  await using container = await startContainer(join(folder.path, "c"), "process.exit(0)");
  expect(await container.exit).toEqual({ reason: "init ended" });
});

test.for([0, -1, 65_536, 1.5])("%d is no port", async (port) => {
  await using folder = await makeTempFolder();
  await using container = await startContainer(join(folder.path, "c"));
  await expect(container.dial(port, new AbortController().signal)).rejects.toMatchObject({
    code: "invalid_argument",
  });
});
