/** Expiry: one sleep until the next moment, and not one wake too many. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startExpiry } from "../../../src/sandboxes/expiry.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

/** Things with an end, removed when it comes. */
function startCase(endsAfterMs: readonly number[]) {
  const clock = createFakeClock();
  const ends = new Set(endsAfterMs.map((ms) => clock.now() + ms));
  const expired: number[] = [];
  const counts = { looks: 0 };
  const startMs = clock.now();
  const expiry = startExpiry({
    log: createSilentLog(),
    clock,
    next() {
      counts.looks += 1;
      return ends.size === 0 ? undefined : Math.min(...ends);
    },
    expire() {
      for (const end of ends) {
        if (end > clock.now()) continue;
        ends.delete(end);
        expired.push(end - startMs);
      }
    },
  });
  return {
    clock,
    ends,
    expired,
    counts,
    note: () => expiry.note(),
    [Symbol.asyncDispose]: () => expiry[Symbol.asyncDispose](),
  };
}

test("what is due expires, what is not stays", async () => {
  await using scene = startCase([1000, 2000]);
  const { clock, expired } = scene;
  await clock.advance(999);
  expect(expired).toEqual([]);
  await clock.advance(1);
  expect(expired).toEqual([1000]);
  await clock.advance(1000);
  expect(expired).toEqual([1000, 2000]);
});

test("a moment in the past expires at once", async () => {
  await using scene = startCase([0]);
  expect(scene.expired).toEqual([0]);
});

test("a nearer moment counts once it is noted", async () => {
  await using scene = startCase([20_000]);
  const { clock, ends, expired } = scene;
  ends.add(clock.now() + 100);
  scene.note();
  await clock.advance(100);
  expect(expired).toEqual([100]);
});

test("nothing to expire means no looking around", async () => {
  await using scene = startCase([]);
  const { clock, counts } = scene;
  for (let step = 0; step < 20; step += 1) await clock.advance(1000);
  expect(counts.looks).toBe(1);
});

test("its end ends the sleep, and nothing expires after it", async () => {
  const { clock, expired, ...scene } = startCase([1000]);
  await scene[Symbol.asyncDispose]();
  await clock.advance(1000);
  expect(expired).toEqual([]);
});
