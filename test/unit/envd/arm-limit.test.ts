/** How long a watch is armed while the directories of its tree keep on moving. */

import { expect, test } from "vitest";
import { startArmLimit } from "../../../src/envd/watch/arm-limit.ts";

const MOVING = expect.objectContaining({
  code: "failed_precondition",
  message: "programs move its directories all the time",
});

test("ten seconds without a directory that stays are too long", () => {
  let nowMs = 0;
  const limit = startArmLimit(() => nowMs);
  for (nowMs = 1000; nowMs < 10_000; nowMs += 1000) limit(false);
  limit(true);
  for (; nowMs < 20_000; nowMs += 1000) limit(false);
  expect(() => limit(false)).toThrow(MOVING);
});

test("a tree in which some always stays is watched within five minutes, or never", () => {
  let nowMs = 0;
  const limit = startArmLimit(() => nowMs);
  for (; nowMs < 300_000; nowMs += 1000) limit(true);
  expect(() => limit(true)).toThrow(MOVING);
});
