/** The daemon's side of a connection in frames, against hosts that do as they should or not. */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { unframe } from "../../../src/envd/framed-socket.ts";
import { countFrames, FROM_HOST, toFrame, toWord } from "../../support/daemon/host-frames.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** What the kernel of a sandbox may hold of a connection, and what data leaves of it to others. */
const MAX_UNREAD_BYTES = 16_384;
const MAX_DATA_BYTES = 16_000;
const WORD_BYTES = 4;
const MAX_FRAME_BYTES = 65_536;
const CONNECTIONS = 100;

interface Pair {
  readonly host: Socket;
  readonly daemon: Duplex;
}

async function startListener() {
  const open = new Set<Socket>();
  const taken: Duplex[] = [];
  const waiting: ((daemon: Duplex) => void)[] = [];
  const server = createServer((raw) => {
    open.add(raw);
    const daemon = unframe(raw);
    daemon.on("error", () => undefined);
    const next = waiting.shift();
    if (next === undefined) taken.push(daemon);
    else next(daemon);
  });
  const port = await listenOnLoopback(server);
  return {
    async open(options: { readonly allowHalfOpen?: boolean } = {}): Promise<Pair> {
      const { promise, resolve } = Promise.withResolvers<Duplex>();
      waiting.push(resolve);
      const host = connect({ ...options, port, host: "127.0.0.1" });
      open.add(host);
      host.on("error", () => undefined);
      await once(host, "connect");
      return { host, daemon: await promise };
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}

test("without a confirmation no more than the kernel may hold is on its way", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const count = countFrames(host, { confirms: false });
  const data = randomBytes(100_000);
  daemon.write(data);
  // The daemon reminds of what is not confirmed, and sends no data meanwhile.
  await expect.poll(() => count.nudges).toBeGreaterThan(2);
  expect(count.data.equals(data.subarray(0, MAX_DATA_BYTES - WORD_BYTES))).toBe(true);
  expect(count.bytes).toBeLessThanOrEqual(MAX_UNREAD_BYTES);
  const before = count.bytes;
  countFrames(host, { confirms: true });
  host.write(toWord(FROM_HOST.read, before));
  await expect.poll(() => count.data.length).toBe(data.length);
  expect(count.data.equals(data)).toBe(true);
});

test("a confirmation of more than was sent lets no more be on its way", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const count = countFrames(host, { confirms: false });
  host.write(toWord(FROM_HOST.read, 0xff_ff_ff));
  host.write(toFrame("x"));
  await once(daemon, "data");
  daemon.write(Buffer.alloc(100_000));
  await expect.poll(() => count.nudges).toBeGreaterThan(2);
  expect(count.bytes).toBeLessThanOrEqual(MAX_UNREAD_BYTES);
});

test("data is consumed when its reader asks for more, not when it comes", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const count = countFrames(host, { confirms: true });
  const data = randomBytes(MAX_FRAME_BYTES);
  host.write(toFrame(data));
  await expect.poll(() => daemon.readableLength).toBe(MAX_FRAME_BYTES);
  expect(count.consumed).toBe(0);
  expect(daemon.read()).toEqual(data);
  await expect.poll(() => count.consumed).toBe(1);
  host.write(toFrame("small"));
  await expect.poll(() => count.consumed).toBe(2);
});

test.for([
  { name: "an unknown kind", bytes: toWord(2, 0) },
  { name: "the last kind", bytes: toWord(255, 1) },
  { name: "no data", bytes: toWord(FROM_HOST.data, 0) },
  { name: "too much data", bytes: toWord(FROM_HOST.data, MAX_FRAME_BYTES + 1) },
  { name: "plain text", bytes: Buffer.from("GET / HTTP/1.1\r\n\r\n") },
])("$name ends the connection, after what was right", async ({ bytes }) => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const chunks: Buffer[] = [];
  daemon.on("data", (chunk: Buffer) => chunks.push(chunk));
  const closed = Promise.all([once(daemon, "close"), once(host.resume(), "close")]);
  host.write(Buffer.concat([toFrame("right"), bytes, toFrame("more")]));
  await closed;
  expect(Buffer.concat(chunks).toString()).toBe("right");
});

test("a question is answered, and is nothing to the daemon's reader", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const read = buffer(daemon);
  const count = countFrames(host, { confirms: true });
  host.write(toWord(FROM_HOST.read, 0));
  await expect.poll(() => count.consumed).toBe(1);
  host.write(Buffer.concat([toFrame("one"), toWord(FROM_HOST.read, 0), toFrame(" more")]));
  await expect.poll(() => count.consumed).toBe(4);
  host.end();
  expect((await read).toString()).toBe("one more");
});

test("a program that asks without end and reads nothing is cut", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const closed = once(daemon.resume(), "close");
  const questions = Buffer.alloc(MAX_FRAME_BYTES, toWord(FROM_HOST.read, 0));
  const ask = () => host.write(questions, (error) => error ?? ask());
  host.pause();
  ask();
  await closed;
  expect(daemon.destroyed).toBe(true);
});

test("a frame that ends in the middle gives nothing, and the end comes", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const read = buffer(daemon);
  host.write(toFrame("whole"));
  host.end(toFrame("broken").subarray(0, 7));
  expect((await read).toString()).toBe("whole");
});

test("the daemon's end comes after all that it sent", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const count = countFrames(host, { confirms: true });
  const data = randomBytes(200_000);
  const failed = once(host, "error");
  daemon.end(data);
  // A reset, of which no kernel keeps anything.
  expect(await failed).toMatchObject([{ code: "ECONNRESET" }]);
  expect(count.data.equals(data)).toBe(true);
});

test("a host that confirms nothing gets what was sent, and an end in order", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  const count = countFrames(host, { confirms: false });
  const ended = once(host, "end");
  daemon.end("the last");
  await ended;
  expect(count.data.toString()).toBe("the last");
});

test("the host's end is answered by a reset, after what it sent", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open({ allowHalfOpen: true });
  const failed = once(host, "error");
  const received = buffer(daemon);
  host.resume().end(toFrame("the last"));
  expect((await received).toString()).toBe("the last");
  expect(await failed).toMatchObject([{ code: "ECONNRESET" }]);
});

test("the host's end closes a daemon that waits for a confirmation", async () => {
  await using listener = await startListener();
  const { host, daemon } = await listener.open();
  daemon.resume().write(Buffer.alloc(100_000));
  await once(host, "data");
  const closed = once(daemon, "close");
  host.end();
  await closed;
  expect(daemon.destroyed).toBe(true);
});

test("100 connections at once carry each their own bytes", async () => {
  await using listener = await startListener();
  const one = async () => {
    const { host, daemon } = await listener.open();
    daemon.pipe(daemon);
    const count = countFrames(host, { confirms: true });
    const data = randomBytes(50_000);
    // Pieces that fit no frame of the other side.
    for (let at = 0; at < data.length; at += 7_001)
      host.write(toFrame(data.subarray(at, at + 7_001)));
    await expect.poll(() => count.data.length).toBe(data.length);
    expect(count.data.equals(data)).toBe(true);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, one));
});
