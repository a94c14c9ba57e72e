/** The proxy of one fetch: its ports, its replies, and that nothing comes once an image was too much. */

import { once } from "node:events";
import { request } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startRegistryProxy } from "../../../src/images/registry-proxy.ts";
import { registryMirrors } from "../../../src/setting-values.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Sends without end to whoever connects. */
async function startFlood() {
  const piece = Buffer.alloc(1024 ** 2);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    const more = () => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on("drain", more);
    more();
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    taken: () => sockets.size,
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

async function countUntilClosed(path: string): Promise<number> {
  const socket = connect(path);
  const { promise, resolve } = Promise.withResolvers<number>();
  let bytes = 0;
  socket.on("data", (chunk) => (bytes += chunk.length));
  socket.on("error", () => undefined);
  socket.once("close", () => resolve(bytes));
  return promise;
}

test("a registry that has sent too much is not reached again", async () => {
  await using folder = await makeTempFolder();
  using flood = await startFlood();
  await using proxy = await startRegistryProxy({
    directory: folder.path,
    mirrors: registryMirrors.parse(`flood.example=http://127.0.0.1:${flood.port}`),
    maxBytes: 1,
  });
  const path = join(folder.path, `${flood.port}.sock`);
  expect(await countUntilClosed(path)).toBeGreaterThan(1024 ** 2);
  expect([await countUntilClosed(path), flood.taken()]).toEqual([0, 1]);
  expect(proxy.refusal()).toMatchObject({ code: "resource_exhausted" });
});

test.for([
  ["a.example=localhost", ["80=80.sock", "443=443.sock"]],
  ["a.example=http://127.0.0.1:5000,b.example=localhost:5000", ["5000=5000.sock"]],
  ["a.example=registry.example:5000", []],
] as const)("the ports of loopback for %s", async ([rules, ports]) => {
  await using folder = await makeTempFolder();
  await using proxy = await startRegistryProxy({
    directory: folder.path,
    mirrors: registryMirrors.parse(rules),
    maxBytes: 1,
  });
  expect(proxy.listeners).toEqual(["0=proxy.sock", ...ports]);
});

test.for([
  {
    name: "each way to log in stays a header of its own",
    head: [
      "HTTP/1.1 401 Unauthorized",
      'WWW-Authenticate: Basic realm="a"',
      'WWW-Authenticate: Bearer realm="b"',
      "Content-Length: 0",
    ],
    expected: [401, ['Basic realm="a"', 'Bearer realm="b"']],
  },
  {
    name: "a registry that switches protocols has not answered",
    head: ["HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: other"],
    expected: [502, undefined],
  },
] as const)("$name", async ({ head, expected }) => {
  await using folder = await makeTempFolder();
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", () => socket.write(`${head.join("\r\n")}\r\n\r\n`));
  });
  const port = await listenOnLoopback(server);
  await using stack = new AsyncDisposableStack();
  const mirrors = registryMirrors.parse(`a.example=http://127.0.0.1:${port}`);
  stack.use(await startRegistryProxy({ directory: folder.path, mirrors, maxBytes: 1 }));
  const asked = request({
    socketPath: join(folder.path, "proxy.sock"),
    path: `http://127.0.0.1:${port}/v2/`,
    agent: false,
  });
  asked.end();
  const [reply] = await once(asked, "response");
  expect([reply.statusCode, reply.headersDistinct["www-authenticate"]]).toEqual(expected);
  reply.resume();
  server.close();
});

test("a connection is idle when its registry is, not when its reader is slow", async () => {
  await using folder = await makeTempFolder();
  using flood = await startFlood();
  const silent = createServer((socket) => socket.on("error", () => socket.destroy()));
  const port = await listenOnLoopback(silent);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => void silent.close());
  const mirrors = registryMirrors.parse(
    `a.example=http://127.0.0.1:${flood.port},b.example=http://127.0.0.1:${port}`,
  );
  const limits = { maxBytes: 1024 ** 3, idleMs: 400 };
  stack.use(await startRegistryProxy({ directory: folder.path, mirrors, ...limits }));
  const slow = connect(join(folder.path, `${flood.port}.sock`));
  await once(slow, "readable");
  // Each takes as long as a connection may be idle.
  for (let count = 0; count < 3; count += 1) {
    expect(await countUntilClosed(join(folder.path, `${port}.sock`))).toBe(0);
  }
  let bytes = 0;
  for await (const chunk of slow) {
    bytes += chunk.length;
    if (bytes > 8 * 1024 ** 2) break;
  }
  expect(bytes).toBeGreaterThan(8 * 1024 ** 2);
});
