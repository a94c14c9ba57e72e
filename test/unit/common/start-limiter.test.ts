/** Calls begin in their order, a few in each turn of the event loop. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createStartLimiter } from "../../../src/common/start-limiter.ts";

test("the first few pass at once, the others a few a turn, in order", async () => {
  const limiter = createStartLimiter(2);
  const passed: number[] = [];
  const calls = Array.from({ length: 7 }, async (_, index) => {
    await limiter();
    passed.push(index);
  });
  const seen: number[][] = [];
  for (let turn = 0; turn < 4; turn += 1) {
    await Promise.resolve();
    seen.push([...passed]);
    await nextTurn();
  }
  await Promise.all(calls);
  expect(seen[0]).toEqual([0, 1]);
  expect(seen.map((numbers) => numbers.length)).toEqual([2, 4, 6, 7]);
  expect(passed).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test("whoever comes alone has nothing to wait for, turn after turn", async () => {
  const limiter = createStartLimiter(1);
  for (let turn = 0; turn < 3; turn += 1) {
    expect(limiter()).toBeUndefined();
    await nextTurn();
    await nextTurn();
  }
});
