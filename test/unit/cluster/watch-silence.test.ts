/** A watch that tells nothing is left after its time, counted from what it told last. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createWatchSilence } from "../../../src/cluster/api/watch-silence.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a watch is left after ninety seconds in which it told nothing", () => {
  const silence = createWatchSilence();
  vi.advanceTimersByTime(80_000);
  const first = silence.begin();
  vi.advanceTimersByTime(80_000);
  silence.end();
  vi.advanceTimersByTime(89_000);
  expect(first.aborted).toBe(false);
  vi.advanceTimersByTime(1_000);
  expect(first.aborted).toBe(true);
  const second = silence.begin();
  vi.advanceTimersByTime(89_000);
  expect(second.aborted).toBe(false);
  vi.advanceTimersByTime(1_000);
  expect(second.aborted).toBe(true);
});
