/** Senders of changes that root inside controls: silent ones, slow ones, and those that never end. */

import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createPace, type PaceBounds } from "../../../src/cluster/snapshots/pace.ts";

const BOUNDS: PaceBounds = { silenceMs: 60_000, bytesPerSecond: 1_000, maxBytes: 1_000 };

async function read(source: AsyncIterable<Buffer>, bounds: Partial<PaceBounds>): Promise<number> {
  let bytes = 0;
  for await (const chunk of createPace({ ...BOUNDS, ...bounds }).read(source))
    bytes += chunk.length;
  return bytes;
}

async function* chunks(count: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < count; at += 1) {
    await turn();
    yield Buffer.alloc(100);
  }
}

/** Sends single bytes, each before any silence is noticed as such. */
async function* drip(): AsyncGenerator<Buffer> {
  for (;;) {
    await turn();
    yield Buffer.alloc(1);
  }
}

async function* silence(): AsyncGenerator<Buffer> {
  yield Buffer.alloc(1);
  await new Promise(() => undefined);
}

const SLOW = {
  code: "unavailable",
  message: "the daemon of the sandbox sends its changes too slowly",
};

test("one that is fast enough is read to its end", async () => {
  expect(await read(chunks(10), {})).toBe(1_000);
});

test("one that falls silent is given up", async () => {
  await expect(read(silence(), { silenceMs: 10 })).rejects.toMatchObject(SLOW);
});

test("one that sends byte by byte is given up", async () => {
  const bounds = {
    silenceMs: 20,
    bytesPerSecond: 1_000_000_000,
    maxBytes: Number.MAX_SAFE_INTEGER,
  };
  await expect(read(drip(), bounds)).rejects.toMatchObject(SLOW);
});

test("one that does not end is given up", async () => {
  await expect(read(chunks(11), {})).rejects.toMatchObject({
    code: "unavailable",
    message: "the daemon of the sandbox sends more than 1000 bytes",
  });
});

test("one that does not begin is given up", async () => {
  const pace = createPace({ ...BOUNDS, silenceMs: 10 });
  await expect(pace.await(new Promise(() => undefined))).rejects.toMatchObject(SLOW);
});

test("the time of the reader is not that of the sender", async () => {
  const pace = createPace({ ...BOUNDS, silenceMs: 1_500 });
  let bytes = 0;
  for await (const chunk of pace.read(chunks(3))) {
    bytes += chunk.length;
    await new Promise((resolve) => setTimeout(resolve, 600));
  }
  expect(bytes).toBe(300);
});
