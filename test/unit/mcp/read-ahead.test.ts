/** Stdin is read ahead of what waits for its host, so that its end is not missed. */

import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { readAhead } from "../../../src/mcp/processes/read-ahead.ts";

const LONG_MS = 600_000;

test("after the end of the source the stream closes, although its reader takes nothing", async () => {
  const source = new PassThrough();
  const stream = readAhead(source, 1);
  stream.pause();
  source.end("what nobody takes");
  await once(stream, "close");
  expect(stream.readableEnded).toBe(false);
});

test("a reader that takes it piece by piece gets all of it, however long that takes", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const source = new PassThrough();
  const stream = readAhead(source, 1_000);
  stream.pause();
  source.end("abcdef");
  await once(source, "end");
  const taken: string[] = [];
  for (let piece = 0; piece < 6; piece += 1) {
    vi.advanceTimersByTime(900);
    taken.push(String(stream.read(1)));
  }
  expect([taken.join(""), stream.destroyed]).toEqual(["abcdef", false]);
});

test("a reader that goes on in time gets all of it", async () => {
  const source = new PassThrough();
  const stream = readAhead(source, LONG_MS);
  stream.pause();
  source.end("abc");
  await once(source, "end");
  expect(await text(stream)).toBe("abc");
});

test("of a source that is not taken only a piece is read", async () => {
  const source = new PassThrough({ highWaterMark: 1 });
  const stream = readAhead(source, LONG_MS);
  const chunk = Buffer.alloc(64 * 1024);
  let sent = 0;
  while (source.write(chunk) || (await Promise.race([once(source, "drain"), settled()]))) sent += 1;
  expect(sent).toBeLessThan(32);
  stream.destroy();
});

/** A turn after the last one in which something can still be read. */
async function settled(): Promise<undefined> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate);
  return undefined;
}
