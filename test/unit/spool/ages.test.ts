/** The ages of spools, by a wall clock that somebody sets. */

import { expect, test } from "vitest";
import { createAges } from "../../../src/spool/ages.ts";
import type { Entry } from "../../../src/spool/folders.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

function entryOf(name: string, times: { endedAtMs?: number; changedAtMs: number }): Entry {
  const place = { name, createdAtMs: 0, owner: "o", sandboxId: "i1", folder: `/spool/${name}` };
  return { place, bytes: 0, endedAtMs: undefined, ...times };
}

test("at the first look the files tell the age, in both directions", async () => {
  const clock = createFakeClock(10 * HOUR_MS);
  const ageOf = createAges(clock).look();
  const at = (endedAtMs: number) => ageOf(entryOf("p_1", { endedAtMs, changedAtMs: 0 }));
  expect([at(9 * HOUR_MS), at(12 * HOUR_MS)]).toEqual([HOUR_MS, 2 * HOUR_MS]);
});

test.each([HOUR_MS, -HOUR_MS, 365 * 24 * HOUR_MS])(
  "a clock that is set by %d ms makes none older",
  async (stepMs) => {
    const clock = createFakeClock(10 * HOUR_MS);
    const ages = createAges(clock);
    const known = entryOf("p_1", { endedAtMs: clock.now() - MINUTE_MS, changedAtMs: 0 });
    expect(ages.look()(known)).toBe(MINUTE_MS);
    await clock.advance(MINUTE_MS / 2);
    const unseen = entryOf("p_2", { endedAtMs: clock.now(), changedAtMs: 0 });
    clock.set(clock.now() + stepMs);
    await clock.advance(MINUTE_MS / 2);
    const ageOf = ages.look();
    // The second ended at some moment since the last look.
    expect([ageOf(known), ageOf(unseen)]).toEqual([2 * MINUTE_MS, MINUTE_MS]);
    await clock.advance(20 * MINUTE_MS);
    const later = ages.look();
    expect([later(known), later(unseen)]).toEqual([22 * MINUTE_MS, 21 * MINUTE_MS]);
  },
);

test("one that is used or ends is as young as that", async () => {
  const clock = createFakeClock(10 * HOUR_MS);
  const ages = createAges(clock);
  expect(ages.look()(entryOf("p_1", { changedAtMs: clock.now() }))).toBe(0);
  await clock.advance(HOUR_MS);
  expect(ages.look()(entryOf("p_1", { changedAtMs: clock.now() - 1 }))).toBe(1);
  await clock.advance(HOUR_MS);
  const ended = entryOf("p_1", { changedAtMs: 0, endedAtMs: clock.now() });
  expect(ages.look()(ended)).toBe(0);
});

test("a look that asked for nothing, because the disk failed, makes none younger", async () => {
  const clock = createFakeClock(10 * HOUR_MS);
  const ages = createAges(clock);
  const entry = entryOf("p_1", { endedAtMs: clock.now(), changedAtMs: 0 });
  expect(ages.look()(entry)).toBe(0);
  await clock.advance(10 * MINUTE_MS);
  ages.look();
  await clock.advance(MINUTE_MS);
  expect(ages.look()(entry)).toBe(11 * MINUTE_MS);
});
