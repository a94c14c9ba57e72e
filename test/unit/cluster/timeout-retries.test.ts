/** How long a pause at the timeout is tried. */

import { expect, test } from "vitest";
import { createTimeoutRetries } from "../../../src/cluster/pause/timeout-retries.ts";

const MINUTE_MS = 60_000;

const run = (endAtMs = 5) => ({ sandboxId: "ione", endAtMs });

/** A sandbox that ended at 5; the wall clock says 10. */
function open() {
  let nowMs = 1_000;
  const retries = createTimeoutRetries({
    records: { items: new Set(["ione"]) },
    clock: { now: () => 10 },
    monotonicMs: () => nowMs,
  });
  const pass = (ms: number) => void (nowMs += ms);
  return { retries, pass };
}

test("one that fails before its timeout is not counted", () => {
  const { retries } = open();
  retries.noteFailure(run(20), 0);
  expect(retries.stateOf(run(20))).toBe("due");
});

test("one that fails waits, is tried again, and is over after ten minutes", () => {
  const { retries, pass } = open();
  retries.noteFailure(run(), 0);
  expect(retries.stateOf(run())).toBe("waiting");
  pass(2_000);
  expect(retries.stateOf(run())).toBe("due");
  pass(10 * MINUTE_MS);
  expect(retries.stateOf(run())).toBe("over");
  // The next run begins anew.
  expect(retries.stateOf(run(6))).toBe("due");
});

test("the time in which it waited for a place is none in which it failed", () => {
  const { retries, pass } = open();
  retries.noteFailure(run(), 0);
  pass(12 * MINUTE_MS);
  retries.noteFailure(run(), 11 * MINUTE_MS);
  expect(retries.stateOf(run())).toBe("waiting");
  pass(MINUTE_MS);
  expect(retries.stateOf(run())).toBe("due");
  pass(9 * MINUTE_MS);
  expect(retries.stateOf(run())).toBe("over");
});
