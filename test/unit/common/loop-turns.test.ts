/** Readers of streams whose bytes are always there leave the event loop to others. */

import { once } from "node:events";
import { pipeline, Readable, Writable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createLoopTurns, inLoopTurns } from "../../../src/common/loop-turns.ts";
import { countTurns } from "../../support/turns.ts";

const READING_MS = 300;

test("many readers at once share the turns", async () => {
  const endAtMs = performance.now() + READING_MS;
  const read = async (): Promise<number> => {
    const turns = createLoopTurns();
    let messages = 0;
    for (; performance.now() < endAtMs; messages += 1) await turns();
    return messages;
  };
  using turns = countTurns();
  const counts = await Promise.all(Array.from({ length: 8 }, read));
  expect(turns.count()).toBeGreaterThan(2);
  expect(counts).not.toContain(0);
});

test("the chunks of a stream that are there at once come as one", async () => {
  const stream = new Readable({ read: () => undefined });
  for (let count = 0; count < 1_000; count += 1) stream.push("a");
  stream.push(null);
  const chunks: string[] = [];
  for await (const chunk of inLoopTurns(new Writable())(stream)) chunks.push(chunk.toString());
  expect(chunks).toEqual(["a".repeat(1_000)]);
});

test("chunks that come while their reader takes nothing go on as few", async () => {
  const pieces: string[] = [];
  let take: (() => void) | undefined;
  const target = new Writable({
    write(chunk, _encoding, done) {
      pieces.push(String(chunk));
      take = done;
    },
  });
  const source = new Readable({ read: () => undefined });
  pipeline(source, inLoopTurns(target), target, () => undefined);
  for (let count = 0; count < 100; count += 1) {
    source.push("a");
    await nextTurn();
  }
  const finished = once(target, "finish");
  source.push(null);
  const taking = setInterval(() => take?.());
  await finished;
  clearInterval(taking);
  expect(pieces.join("")).toBe("a".repeat(100));
  expect(pieces.length).toBeLessThan(5);
});

function work(ms: number): void {
  const before = process.threadCpuUsage();
  for (let took = 0; took < ms * 1_000;) {
    const { user, system } = process.threadCpuUsage(before);
    took = user + system;
  }
}

test("after a long turn the readers pause for as long", async () => {
  const [first, second] = [createLoopTurns(), createLoopTurns()];
  work(20);
  const waits = [first(), second()];
  await waits[0];
  work(50);
  const endedMs = performance.now();
  await waits[1];
  expect(performance.now() - endedMs).toBeGreaterThan(45);
});
