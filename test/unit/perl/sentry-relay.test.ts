/**
 * The host's side of the frames: the relay beside a sandbox with a kernel of its own, against daemons
 * and clients that do as they should or not.
 */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { expect, test, vi } from "vitest";
import { unframe } from "../../../src/envd/framed-socket.ts";
import { FROM_DAEMON, FROM_HOST, toFrame, toWord } from "../../support/daemon/host-frames.ts";
import { startRelayWorld } from "../../support/daemon/relay-world.ts";

// Three programs start for each test.
vi.setConfig({ testTimeout: 30_000 });

const CONNECTIONS = 100;
/** What the relay holds of a connection in one direction. */
const MAX_HELD_BYTES = 65_536;
const MAX_DATA_BYTES = 16_384;
const MEGABYTE = 1024 * 1024;

/** Takes each connection as the daemon does, and gives its bytes back. */
function echo(raw: Socket): void {
  const stream = unframe(raw);
  stream.on("error", () => undefined);
  stream.pipe(stream);
}

/** What a client gets back that ends when it has it all. */
async function echoOf(client: Socket, data: Buffer): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  client.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= data.length) resolve();
  });
  client.once("close", () => resolve());
  client.write(data);
  await promise;
  client.destroy();
  return Buffer.concat(chunks);
}

test("bytes go through in both directions, as many as there are", async () => {
  await using world = await startRelayWorld(echo);
  const data = randomBytes(4 * MEGABYTE);
  expect((await echoOf(await world.dial(), data)).equals(data)).toBe(true);
});

test("100 connections at once carry each their own bytes", async () => {
  await using world = await startRelayWorld(echo);
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, async () => world.dial()));
  const same = clients.map(async (client) => {
    const data = randomBytes(100_000);
    return (await echoOf(client, data)).equals(data);
  });
  expect(await Promise.all(same)).toEqual(clients.map(() => true));
});

test("a daemon that consumes nothing is sent one frame, and a client that goes is let go", async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await using world = await startRelayWorld(resolve);
  const client = await world.dial();
  let sent = 0;
  const data = randomBytes(MEGABYTE);
  client.write(data, () => (sent += data.length));
  const daemon = await promise;
  let got = Buffer.alloc(0);
  daemon.on("data", (chunk: Buffer) => (got = Buffer.concat([got, chunk])));
  const frameEnd = () => (got.length < 4 ? 4 : 4 + got.readUInt32BE());
  await expect.poll(() => got.length >= 4 && got.length === frameEnd()).toBe(true);
  expect(frameEnd()).toBeLessThanOrEqual(4 + MAX_HELD_BYTES);
  // An answer goes through meanwhile; after it nothing more has come.
  const first = got.length;
  daemon.write(toFrame("answer"));
  expect(String(await once(client, "data"))).toBe("answer");
  const word = toWord(FROM_HOST.read, toFrame("answer").length);
  await expect.poll(() => got.length).toBe(first + word.length);
  expect(got.subarray(first).equals(word)).toBe(true);
  expect(sent).toBe(0);
  daemon.write(toWord(FROM_DAEMON.consumed, 0));
  await expect.poll(() => got.length).toBeGreaterThan(first + 2 * word.length);
  const ended = once(daemon, "close");
  client.destroy();
  await ended;
});

test.for([
  { name: "an unknown kind", bytes: toWord(3, 0) },
  { name: "the last kind", bytes: toWord(255, 4) },
  { name: "more data than a frame may have", bytes: toWord(FROM_DAEMON.data, MAX_DATA_BYTES + 1) },
  { name: "plain text", bytes: Buffer.from("HTTP/1.1 200 OK\r\n\r\n") },
])("$name of a program inside ends that connection alone", async ({ bytes }) => {
  const raws: Socket[] = [];
  await using world = await startRelayWorld((raw) => raws.push(raw));
  const broken = await world.dial();
  await expect.poll(() => raws.length).toBe(1);
  const sound = await world.dial();
  await expect.poll(() => raws.length).toBe(2);
  const ended = once(broken.resume(), "close");
  raws[0]?.write(Buffer.concat([bytes, toFrame("more")]));
  await ended;
  raws[1]?.write(toFrame("goes on"));
  expect(String(await once(sound, "data"))).toBe("goes on");
});

test("a frame that comes byte by byte is one, and empty ones are nothing", async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await using world = await startRelayWorld(resolve);
  const client = await world.dial();
  const raw = (await promise).setNoDelay(true);
  const read = buffer(client);
  const frames = Buffer.concat([
    toWord(FROM_DAEMON.nudge, 0),
    toFrame("one"),
    toWord(FROM_DAEMON.nudge, 0),
    toFrame(" by one"),
  ]);
  for (const byte of frames) {
    raw.write(Buffer.from([byte]));
    await new Promise((done) => setImmediate(done));
  }
  raw.end();
  expect(String(await read)).toBe("one by one");
});

test("a client that pauses holds its daemon up, and others not", async () => {
  const data = randomBytes(8 * MEGABYTE);
  let isDone = false;
  const streams: ReturnType<typeof unframe>[] = [];
  await using world = await startRelayWorld((raw) => {
    if (streams.length > 0) {
      echo(raw);
      return;
    }
    const stream = unframe(raw);
    stream.on("error", () => undefined);
    stream.end(data, () => (isDone = true));
    streams.push(stream);
  });
  const slow = (await world.dial()).pause();
  await once(slow, "readable");
  const others = await Promise.all(Array.from({ length: 3 }, async () => world.dial()));
  for (const other of others) {
    const text = randomBytes(MEGABYTE);
    expect((await echoOf(other, text)).equals(text)).toBe(true);
  }
  expect(isDone).toBe(false);
  expect((await buffer(slow)).equals(data)).toBe(true);
});

test("what a client sent before its end reaches the daemon", async () => {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  await using world = await startRelayWorld((raw) => {
    const stream = unframe(raw);
    stream.on("error", () => undefined);
    buffer(stream).then(resolve, () => resolve(Buffer.alloc(0)));
  });
  const client = await world.dial();
  const data = randomBytes(60_000);
  client.end(data);
  expect((await promise).equals(data)).toBe(true);
});

test("what a daemon sent before its end reaches the client", async () => {
  const data = randomBytes(300_000);
  await using world = await startRelayWorld((raw) => {
    const stream = unframe(raw);
    stream.on("error", () => undefined);
    stream.end(data);
  });
  expect((await buffer(await world.dial())).equals(data)).toBe(true);
});

test("a connection that the kernel refuses is closed, and the next one served", async () => {
  await using world = await startRelayWorld(echo);
  const data = randomBytes(1_000);
  // The relay serves once the daemon has answered it.
  expect((await echoOf(await world.dial(), data)).equals(data)).toBe(true);
  await world.refuse(true);
  const refused = (await world.dial()).resume();
  await once(refused, "close");
  await world.refuse(false);
  expect((await echoOf(await world.dial(), data)).equals(data)).toBe(true);
});

test("orders are given to the kernel once for each change", async () => {
  await using world = await startRelayWorld(echo);
  const answers: string[] = [];
  for (const word of ["state", "resume", "pause", "pause", "state", "resume", "state", "nothing"]) {
    answers.push(await world.order(word));
  }
  const [running, paused] = ["running\n", "paused\n"];
  expect(answers).toEqual([running, running, paused, paused, paused, running, running, "failed\n"]);
  expect(world.orders()).toEqual(["Pause", "Resume"]);
});

test("the daemon is asked on a connection that it serves, between what clients send", async () => {
  await using world = await startRelayWorld(echo);
  expect(await world.order("ask")).toBe("");
  const client = await world.dial();
  client.write("one");
  expect(String(await once(client, "data"))).toBe("one");
  for (let count = 0; count < 3; count += 1) {
    // What was sent last may not be consumed yet.
    await expect.poll(async () => world.order("ask")).toBe("running\n");
    client.write("more");
    expect(String(await once(client, "data"))).toBe("more");
  }
  expect(world.orders()).toEqual([]);
});

test("a daemon that does not answer holds who asks until its connection ends", async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await using world = await startRelayWorld(resolve);
  const client = (await world.dial()).resume();
  client.write("one");
  const daemon = await promise;
  let got = Buffer.alloc(0);
  daemon.on("data", (chunk: Buffer) => (got = Buffer.concat([got, chunk])));
  const begin = Buffer.concat([toFrame("one"), toWord(FROM_HOST.read, 4)]);
  await expect.poll(() => got.length).toBe(toFrame("one").length);
  daemon.write(toWord(FROM_DAEMON.consumed, 0));
  // It is served once the relay has confirmed that.
  await expect.poll(() => got.length).toBe(begin.length);
  const asking = world.order("ask");
  await expect.poll(() => got.length).toBe(begin.length + 4);
  expect(got).toEqual(Buffer.concat([begin, toWord(FROM_HOST.read, 0)]));
  // One question at a time, and other orders are obeyed meanwhile.
  expect(await world.order("ask")).toBe("");
  expect(await world.order("state")).toBe("running\n");
  // As a daemon of an older image, which hears no question: the client is served all the same.
  client.write("two");
  await expect.poll(() => got.subarray(begin.length + 4)).toEqual(toFrame("two"));
  daemon.destroy();
  expect(await asking).toBe("");
});

test("a pause empties no file on its way, which a file system would write to the disk at once", async () => {
  await using world = await startRelayWorld(echo);
  expect(await world.order("pause")).toBe("paused\n");
  expect(world.takenBackBytes()).toBe(0);
});

test("a relay in the place of one that died goes on from the state of the kernel", async () => {
  await using world = await startRelayWorld(echo);
  const [running, paused] = ["running\n", "paused\n"];
  expect(await world.order("pause")).toBe(paused);
  await world.replaceRelay();
  expect(await world.order("state")).toBe(paused);
  expect(await world.order("pause")).toBe(paused);
  expect(await world.order("resume")).toBe(running);
  await world.replaceRelay();
  expect(await world.order("state")).toBe(running);
  expect(await world.order("resume")).toBe(running);
  expect(world.orders()).toEqual(["Pause", "Resume"]);
  const data = randomBytes(1_000);
  expect((await echoOf(await world.dial(), data)).equals(data)).toBe(true);
});

test("the relay ends with its kernel, and its clients' connections with it", async () => {
  await using world = await startRelayWorld(echo);
  const client = (await world.dial()).resume();
  client.write("x");
  await once(client, "data");
  expect(world.isRelayRunning()).toBe(true);
  const closed = once(client, "close");
  await world.endKernel();
  await closed;
  await expect.poll(() => world.isRelayRunning()).toBe(false);
});
