/** Readers of streams whose bytes are always there leave the event loop to others. */

import { Readable } from "node:stream";
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
  for await (const chunk of inLoopTurns(stream)) chunks.push(chunk.toString());
  expect(chunks).toEqual(["a".repeat(1_000)]);
});
