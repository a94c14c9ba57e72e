/** A key that makes sandboxes in a loop is slowed down, and no other key is. */

import { expect, test } from "vitest";
import { createRateLimit } from "../../../src/control/access.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

test("a change of the wall clock changes no rate", async () => {
  const clock = createFakeClock();
  const limit = createRateLimit(clock);
  expect(limit.take("a", 200)).toBe(0);
  clock.set(clock.now() - 3_600_000);
  await clock.advance(1_000);
  expect([limit.take("a", 20), limit.take("a", 1)]).toEqual([0, 1]);
});

test("a burst passes, then as many as time gives back", async () => {
  const clock = createFakeClock();
  const limit = createRateLimit(clock);
  expect([limit.take("a", 150), limit.take("a", 50), limit.take("a", 1)]).toEqual([0, 0, 1]);
  expect(limit.take("a", 100)).toBe(5);
  expect(limit.take("a", 0)).toBe(0);
  expect(limit.take("b", 1)).toBe(0);
  await clock.advance(1000);
  expect([limit.take("a", 20), limit.take("a", 1)]).toEqual([0, 1]);
  await clock.advance(3_600_000);
  expect([limit.take("a", 200), limit.take("a", 1)]).toEqual([0, 1]);
});
