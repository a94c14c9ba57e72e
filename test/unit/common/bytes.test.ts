/** Bytes in pieces of any size come back as they were, and once. */

import { expect, test } from "vitest";
import { createByteBuffer } from "../../../src/common/bytes.ts";

test("what was added comes back in order, and then nothing", () => {
  const buffer = createByteBuffer();
  const pieces = Array.from({ length: 3_000 }, (_, index) => Buffer.alloc(index % 7, index));
  for (const piece of pieces) buffer.add(piece);
  const whole = Buffer.concat(pieces);
  expect([buffer.length, buffer.take().equals(whole), buffer.length]).toEqual([
    whole.length,
    true,
    0,
  ]);
  expect(buffer.take().length).toBe(0);
});

test("what was taken is not touched by what is added later", () => {
  const buffer = createByteBuffer();
  const source = Buffer.from("one");
  buffer.add(source);
  const taken = buffer.take();
  source.write("two");
  buffer.add(source);
  expect([taken.toString(), buffer.take().toString()]).toEqual(["one", "two"]);
});
