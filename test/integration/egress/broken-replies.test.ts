/** Requests and replies that cannot be passed on end their connection, and nothing else of the egress program. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startEgressProxy } from "../../support/network/egress-proxy.ts";

const NEVER_MS = 20_000;

/** A proxy whose one host answers each request with these bytes. */
async function startProxy(reply: string) {
  await using stack = new AsyncDisposableStack();
  const faults: unknown[] = [];
  const onFault = (fault: unknown) => void faults.push(fault);
  process.on("unhandledRejection", onFault);
  stack.defer(() => void process.off("unhandledRejection", onFault));
  const host = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(reply, "latin1"));
  });
  const hostPort = await listenOnLoopback(host);
  stack.defer(() => void host.close());
  const port = await startEgressProxy(stack, hostPort);
  const owned = stack.move();
  return { port, faults, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test("a client of HTTP/1.0 gets the body alone of a reply in chunks", async () => {
  const chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
  await using proxy = await startProxy(chunks);
  const client = connect({ port: proxy.port, host: "127.0.0.1" });
  client.write("GET / HTTP/1.0\r\nhost: allowed.test\r\n\r\n");
  const [head, body] = (await text(client)).split("\r\n\r\n", 2);
  expect({ head: head?.toLowerCase(), body }).toEqual({
    head: expect.not.stringContaining("transfer-encoding"),
    body: "body",
  });
});

test.for([
  { name: "with a control character in its status line", reply: "HTTP/1.1 200 \u0001\r\n\r\n" },
  { name: "that switches protocols unasked", reply: "HTTP/1.1 101 Odd\r\nupgrade: x\r\n\r\n" },
  { name: "that is no reply", reply: "ICY 200 OK\r\n\r\n" },
])("a reply $name", async ({ reply }) => {
  await using proxy = await startProxy(reply);
  const client = connect({ port: proxy.port, host: "127.0.0.1" });
  client.on("error", () => undefined).resume();
  const closed = once(client, "close", { signal: AbortSignal.timeout(NEVER_MS) });
  client.write("GET / HTTP/1.1\r\nhost: allowed.test\r\n\r\n");
  await closed;
  await nextTurn();
  expect(proxy.faults).toEqual([]);
});

test.for([
  {
    name: "whose head is too large",
    head: `GET / HTTP/1.1\r\nx-a: ${"a".repeat(20_000)}`,
    status: 431,
  },
  { name: "whose target is not ASCII", head: "GET /\u00e9 HTTP/1.1", status: 400 },
])("a request $name is told so", async ({ head, status }) => {
  await using proxy = await startProxy("HTTP/1.1 204 No Content\r\n\r\n");
  const client = connect({ port: proxy.port, host: "127.0.0.1" });
  client.write(`${head}\r\nhost: allowed.test\r\n\r\n`);
  expect(await text(client)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
});

test("a reply that only says that the protocol changes is none", async () => {
  await using proxy = await startProxy("HTTP/1.1 101 Odd\r\nupgrade: x\r\n\r\n");
  const client = connect({ port: proxy.port, host: "127.0.0.1" });
  client.write("GET / HTTP/1.1\r\nhost: allowed.test\r\n\r\n");
  expect(await text(client)).toMatch(/^HTTP\/1\.1 502 /);
});
