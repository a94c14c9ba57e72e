/** The egress program shares itself among sandboxes: what one of them holds, another one still gets. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createWebServer } from "../../../src/egress/http-proxy.ts";
import { startNameServer } from "../../../src/egress/name-server.ts";
import { createPolicies } from "../../../src/egress/policies.ts";
import { createResolver } from "../../../src/egress/resolver.ts";
import { startTlsProxy } from "../../../src/egress/tls-proxy.ts";
import { findFreePort, listenOnLoopback } from "../../support/loopback.ts";
import { startEchoServer } from "../../support/network/echo.ts";

const NEVER_MS = 20_000;
const HOG = "127.0.0.2";
const OTHER = "127.0.0.3";
const now = () => performance.now();

/** A name server that answers nothing; the names that it was asked for. */
async function startMuteServer() {
  const socket = createSocket("udp4");
  const names = new Set<string>();
  socket.on("message", (message) => {
    const length = message[12] ?? 0;
    names.add(message.toString("latin1", 13, 13 + length));
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return { names, port: socket.address().port, [Symbol.dispose]: () => void socket.close() };
}

test("names that do not resolve for one sandbox keep no other from asking", async () => {
  using mute = await startMuteServer();
  const resolver = createResolver({ servers: [`127.0.0.1:${mute.port}`], never: [], now });
  const asked: Promise<unknown>[] = [];
  for (let index = 0; index < 400; index += 1) {
    asked.push(resolver.lookup(HOG, `hog${index}.test`));
  }
  asked.push(resolver.lookup(OTHER, "other.test"));
  await expect.poll(() => mute.names.has("other")).toBe(true);
  expect(mute.names.size).toBe(65);
  // Those beyond the share have failed at once; the others are left to the server's silence.
  expect(await Promise.race([asked[64], asked[63]])).toMatchObject({ outcome: "failed" });
});

test("connections of one sandbox to the name server leave some to another one", async () => {
  const policies = createPolicies();
  for (const sender of [HOG, OTHER]) policies.replace(sender, ["none.test"]);
  const port = await findFreePort();
  const resolver = createResolver({ servers: ["127.0.0.1:9"], never: [], now });
  using stack = new DisposableStack();
  stack.use(await startNameServer({ address: "127.0.0.1", port, policies, resolver, now }));
  const sockets: Socket[] = [];
  for (let index = 0; index < 100; index += 1) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: HOG });
    sockets.push(socket);
    await once(socket, "connect");
  }
  const client = connect({ port, host: "127.0.0.1", localAddress: OTHER });
  sockets.push(client);
  const question = Buffer.from(
    "\0\x1d\0\x01\x01\0\0\x01\0\0\0\0\0\0\x05other\x04test\0\0\x01\0\x01",
    "latin1",
  );
  question.writeUInt16BE(question.length - 2);
  client.write(question);
  const [reply]: Buffer[] = await once(client, "data", { signal: AbortSignal.timeout(NEVER_MS) });
  // There is no such name for this sandbox.
  expect((reply?.[5] ?? 0) & 0xf).toBe(3);
  for (const socket of sockets) socket.destroy();
});

/** More than the kernel holds of a connection on its way in both directions. */
const UNREAD_BYTES = 32 * 1024 ** 2;
/** In each of them a server that does not wait for its client reads a part of what was sent. */
const TURNS = 4_000;

test("replies that a client of the name server does not take are not piled up", async () => {
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["*"]);
  const label = `\x3f${"a".repeat(63)}`;
  const text = `\0\0\0\x1d\x01\0\0\x01\0\0\0\0\0\0${label.repeat(3)}\0\0\x01\0\x01`;
  const question = Buffer.from(text, "latin1");
  question.writeUInt16BE(question.length - 2);
  const questions = Buffer.concat(Array.from({ length: 200 }, () => question));
  const answered = { bytes: 0 };
  const lookup = async () => {
    answered.bytes += question.length;
    return { outcome: "found", addresses: [], untilMs: now() } as const;
  };
  const port = await findFreePort();
  using stack = new DisposableStack();
  const options = { address: "127.0.0.1", port, policies, resolver: { lookup }, now };
  stack.use(await startNameServer(options));
  const client = connect({ port, host: "127.0.0.1" });
  await once(client, "connect");
  for (let turn = 0; turn < TURNS && answered.bytes < UNREAD_BYTES; turn += 1) {
    if (!client.writableNeedDrain) client.write(questions);
    await new Promise((resolve) => setImmediate(resolve));
  }
  client.destroy();
  expect(answered.bytes).toBeGreaterThan(0);
  expect(answered.bytes).toBeLessThan(UNREAD_BYTES);
});

test("a first message of TLS in tiny pieces is refused before it has cost much", async () => {
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["*"]);
  const port = await findFreePort();
  const resolver = createResolver({ servers: ["127.0.0.1:9"], never: [], now });
  using stack = new DisposableStack();
  stack.use(await startTlsProxy({ address: "127.0.0.1", port, policies, resolver }));
  const client = connect({ port, host: "127.0.0.1", noDelay: true });
  client.on("error", () => undefined);
  let reply = Buffer.alloc(0);
  client.on("data", (chunk: Buffer) => {
    reply = Buffer.concat([reply, chunk]);
  });
  const closed = once(client, "close", { signal: AbortSignal.timeout(NEVER_MS) });
  // Records of one byte each, of a message of 64 KiB that never ends.
  const head = [Buffer.from([22, 3, 1, 0, 4, 1, 0, 255, 0])];
  const pieces = Array.from({ length: 2_000 }, () => Buffer.from([22, 3, 1, 0, 1, 0]));
  for (const piece of [...head, ...pieces]) {
    if (client.destroyed || reply.length > 0) break;
    client.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  client.end();
  await closed;
  expect(reply.at(0)).toBe(21);
});

test("an offer of HTTP/2 is not passed on", async () => {
  await using echo = await startEchoServer();
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["allowed.test"]);
  const dial = async () => connect({ port: echo.port, host: "127.0.0.1", allowHalfOpen: true });
  const server = createWebServer({ policies, dial });
  const port = await listenOnLoopback(server);
  try {
    for (const connection of ["Upgrade, HTTP2-Settings", "Upgrade", "keep-alive"]) {
      const reply = await fetchRaw(port, [
        "GET / HTTP/1.1",
        "Host: allowed.test",
        `Connection: ${connection}`,
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA",
      ]);
      expect(reply).toMatch(/^HTTP\/1\.1 200 /);
      expect(reply.toLowerCase()).not.toMatch(/http2-settings|h2c/);
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

async function fetchRaw(port: number, lines: readonly string[]): Promise<string> {
  const client = connect({ port, host: "127.0.0.1" });
  client.write(`${lines.join("\r\n")}\r\n\r\n`);
  let text = "";
  for await (const chunk of client) {
    text += String(chunk);
    if (text.endsWith("0\r\n\r\n") || text.endsWith("}")) break;
  }
  return text;
}
