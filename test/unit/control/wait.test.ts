import { expect, test } from "vitest";
import { readWaitMs } from "../../../src/control/route.ts";

test.for([
  [undefined, 50_000],
  ["wait=5", 5_000],
  ["respond-async, WAIT = 7", 7_000],
  ["wait=0;x", 0],
  ["wait=9999", 50_000],
  ["wait=99999", 50_000],
  ["wait=-1", 50_000],
  ["await=3", 50_000],
  [["return=minimal", "wait=2"], 2_000],
] as const)("%j means a wait of %i ms", ([header, waitMs]) => {
  expect(readWaitMs(header)).toBe(waitMs);
});
