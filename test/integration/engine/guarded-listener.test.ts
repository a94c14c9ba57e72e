/** A listener for the host alone at an address that others can connect to. */

import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { guardBySecret } from "../../../src/envd/guarded-listener.ts";
import { dataOf, toFrame } from "../../support/daemon/host-frames.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const SECRET = "f00d".repeat(12);
const REQUEST = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

async function startGuarded(onClosed = () => {}) {
  const server = createServer((_request, response) => response.end("served"));
  const { listener, touch } = guardBySecret(server, { secret: Buffer.from(SECRET), onClosed });
  const port = await listenOnLoopback(listener);
  return {
    listener,
    touch,
    dial: () => connect({ port, host: "127.0.0.1" }),
    [Symbol.asyncDispose]: async () => {
      const closed = once(listener, "close");
      listener.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const WHOLE = toFrame(SECRET + REQUEST);

test.for([
  { name: "in one piece", pieces: [WHOLE] },
  { name: "byte by byte", pieces: [...WHOLE].map((byte) => Buffer.from([byte])) },
  {
    name: "cut in the secret",
    pieces: [toFrame(SECRET.slice(0, 7)), toFrame(SECRET.slice(7) + REQUEST)],
  },
])("the secret and a request $name are answered", async ({ pieces }) => {
  await using guarded = await startGuarded();
  const socket = guarded.dial();
  await once(socket, "connect");
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(dataOf(await buffer(socket))).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*served$/);
});

test.for([
  { name: "a request without the secret", bytes: REQUEST },
  { name: "a wrong secret", bytes: `${SECRET.slice(0, -1)}e${REQUEST}` },
  { name: "nothing but an end", bytes: "" },
  { name: "half of the secret", bytes: SECRET.slice(0, 20) },
])("$name gets no answer", async ({ bytes }) => {
  await using guarded = await startGuarded();
  const socket = guarded.dial();
  socket.end(bytes === "" ? "" : toFrame(bytes));
  socket.on("error", () => undefined);
  expect(dataOf(await buffer(socket).catch(() => Buffer.alloc(0)))).toBe("");
});

test("connections that wait go for the one that knows the secret", async () => {
  await using guarded = await startGuarded();
  const waiting = Array.from({ length: 100 }, () => guarded.dial());
  await Promise.all(waiting.map(async (socket) => once(socket, "connect")));
  for (const socket of waiting) socket.on("error", () => undefined);
  const socket = guarded.dial();
  socket.write(WHOLE);
  expect(dataOf(await buffer(socket))).toMatch(/served$/);
  for (const other of waiting) other.destroy();
});

test.for([
  { name: "was served", bytes: WHOLE },
  { name: "was refused", bytes: toFrame("wrong".repeat(12)) },
])("the end of a connection that $name is told", async ({ bytes }) => {
  const closed = Promise.withResolvers<void>();
  await using guarded = await startGuarded(closed.resolve);
  const socket = guarded.dial();
  socket.on("error", () => undefined).resume();
  socket.write(bytes);
  await expect(closed.promise).resolves.toBeUndefined();
});

test("its own connection is accepted and closed, and only those of others are told", async () => {
  let closings = 0;
  await using guarded = await startGuarded(() => (closings += 1));
  const { listener, touch } = guarded;
  for (let round = 1; round <= 20; round += 1) {
    const accepted = once(listener, "connection");
    touch();
    const [own] = await accepted;
    await once(own, "close");
    expect(closings).toBe(round - 1);
    const other = guarded.dial().end();
    other.on("error", () => undefined);
    await expect.poll(() => closings).toBe(round);
  }
});

test("a listener that does not listen any more is not touched", async () => {
  const { listener, touch } = await (async () => {
    await using guarded = await startGuarded();
    return guarded;
  })();
  touch();
  expect(listener.listening).toBe(false);
});
