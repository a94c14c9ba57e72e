/** Two streams as one: a slow reader gets everything, and what breaks breaks both. */

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { joinStreams } from "../../../src/common/join-streams.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** A stream whose reader takes what is written when it is told to. */
function createSlow() {
  const taken: string[] = [];
  let take: (() => void) | undefined;
  const stream = new Duplex({
    read() {},
    write(chunk, _encoding, done) {
      take = () => {
        taken.push(String(chunk));
        done();
      };
    },
  });
  return { stream, taken, take: () => take?.() };
}

function createPeer(): Duplex {
  return new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
}

test("what a stream sent before its end arrives, however late its reader takes it", async () => {
  const { stream, taken, take } = createSlow();
  const source = createPeer();
  joinStreams(stream, source);
  const closed = once(source, "close");
  source.push("the last words");
  source.push(null);
  source.end();
  await closed;
  expect(stream.destroyed).toBe(false);
  take();
  await once(stream, "close");
  expect(taken).toEqual(["the last words"]);
});

test("a stream that is cut cuts the other one at once", async () => {
  const { stream } = createSlow();
  const source = createPeer();
  joinStreams(stream, source);
  source.push("some");
  source.destroy();
  await once(stream, "close");
  expect(stream.destroyed).toBe(true);
});

test("an end in one direction leaves the other one open", async () => {
  const left = createPeer();
  const right = createPeer();
  joinStreams(left, right);
  left.push(null);
  await once(right, "finish");
  expect([left.destroyed, right.destroyed]).toEqual([false, false]);
  right.push(null);
  await Promise.all([once(left, "close"), once(right, "close")]);
});

test("a reader that takes nothing of the last bytes is given up", async () => {
  const server = createServer({ pauseOnConnect: true });
  const port = await listenOnLoopback(server);
  const taken = once(server, "connection");
  const target = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  await once(target, "connect");
  const [reader] = await taken;
  const source = createPeer();
  target.write(Buffer.alloc(64 * 1024 ** 2));
  joinStreams(source, target, 50);
  source.push(null);
  source.end();
  await once(target, "close");
  expect([source.destroyed, target.writableFinished]).toEqual([true, false]);
  reader.destroy();
  server.close();
});

test("a stream that was closed before closes the other one", async () => {
  const source = createPeer();
  source.destroy();
  await once(source, "close");
  const target = createPeer();
  joinStreams(source, target);
  await once(target, "close");
  expect(target.destroyed).toBe(true);
});
