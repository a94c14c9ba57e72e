/** Passes of fronts count once, and however many are used, new ones are taken. */

import { expect, test } from "vitest";
import { createUsedPasses } from "../../../src/envd/used-passes.ts";
import { MAX_SKEW_MS } from "../../../src/wire/pod-listener.ts";

const MOST = 65_536;

test("a busy sandbox stays reachable: each new pass is taken, and none of before again", () => {
  let nowMs = 1_000_000;
  const passes = createUsedPasses(() => nowMs);
  // Some 260 connections in a second, for as long as clocks may differ.
  const begunAtMs = nowMs;
  const taken = Array.from({ length: MOST + 10_000 }, (_, index) => {
    nowMs = begunAtMs + index * 4;
    return passes.take(`n${index}`, nowMs);
  });
  expect(taken.filter((isTaken) => !isTaken)).toHaveLength(0);
  const again = taken.map((_, index) => passes.take(`n${index}`, begunAtMs + index * 4));
  expect(again.filter((isTaken) => isTaken)).toHaveLength(0);
});

test("a clock that was set back makes no pass count twice", () => {
  let nowMs = 1_000_000;
  const passes = createUsedPasses(() => nowMs);
  expect(passes.take("first", nowMs)).toBe(true);
  nowMs += 2 * MAX_SKEW_MS;
  expect(passes.take("second", nowMs)).toBe(true);
  nowMs -= 2 * MAX_SKEW_MS;
  expect(passes.take("first", nowMs)).toBe(false);
});

test.for([-MAX_SKEW_MS - 1, MAX_SKEW_MS + 1])(
  "a pass whose clock is %i ms off is refused",
  (ms) => {
    const passes = createUsedPasses(() => 1_000_000);
    expect(passes.take("n", 1_000_000 + ms)).toBe(false);
  },
);
