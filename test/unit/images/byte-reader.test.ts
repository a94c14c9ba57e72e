/** Pieces of known length from a stream whose own pieces are as small as its sender likes. */

import { expect, test } from "vitest";
import { createByteReader } from "../../../src/images/byte-reader.ts";

const SIZE = 1_000_000;

test("what comes byte by byte takes little more memory than its bytes", async () => {
  const before = process.memoryUsage().heapUsed;
  let atEnd = 0;
  async function* bytes(): AsyncGenerator<Buffer> {
    const piece = Buffer.from("a");
    for (let count = 0; count < SIZE; count += 1) yield piece;
    atEnd = process.memoryUsage().heapUsed;
    yield Buffer.from("bc");
  }
  const reader = createByteReader(bytes());
  expect(await reader.take(SIZE + 1)).toEqual(Buffer.from(`${"a".repeat(SIZE)}b`));
  expect(await reader.take(1)).toEqual(Buffer.from("c"));
  expect(reader.position).toBe(SIZE + 2);
  // An object for each piece would take some hundred megabytes.
  expect(atEnd - before).toBeLessThan(64_000_000);
});
