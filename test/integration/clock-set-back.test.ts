/** The wall clock is set back by a year while sandboxes run: none of them lives a year longer. */

import { expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import type { Deadline, Engine } from "../../src/engine/engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const LIFE_MS = 60_000;
const YEAR_MS = 365 * 86_400_000;
/** A step of the clock is noticed within this time. */
const LOOK_MS = 30_000;

test("a run lives no longer than it was asked to, from the moment that is noticed", async () => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using service = await startTestService({ clock });
  const { sandboxID } = await service.create({ timeout: LIFE_MS / 1_000 });
  const look = () => service.call({ path: `/sandboxes/${sandboxID}` });
  clock.set(clock.now() - YEAR_MS);
  await clock.advance(LOOK_MS);
  const startedAt = new Date(clock.now()).toISOString();
  const endAt = new Date(clock.now() + LIFE_MS).toISOString();
  expect(await look()).toMatchObject({ status: 200, body: { startedAt, endAt } });
  await clock.advance(LIFE_MS);
  await expect.poll(look).toMatchObject({ status: 404 });
});

test("a small correction moves nothing", async () => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using service = await startTestService({ clock });
  const { sandboxID } = await service.create({ timeout: LIFE_MS / 1_000 });
  const look = async () => (await service.call({ path: `/sandboxes/${sandboxID}` })).body;
  const before = await look();
  clock.set(clock.now() - LOOK_MS - 1_000);
  await clock.advance(LOOK_MS);
  expect(await look()).toEqual(before);
});

test.for([
  { operation: "timeout", body: { timeout: 120 }, lifeMs: 120_000 },
  { operation: "refreshes", body: { duration: 120 }, lifeMs: 120_000 },
  { operation: "connect", body: { timeout: 120 }, lifeMs: 120_000 },
  { operation: "connect", body: { timeout: 10 }, lifeMs: LIFE_MS },
])("$operation $body counts from the clock as it was set back", async (asked) => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using service = await startTestService({ clock });
  const { sandboxID } = await service.create({ timeout: LIFE_MS / 1_000 });
  const path = `/sandboxes/${sandboxID}`;
  clock.set(clock.now() - YEAR_MS);
  const { operation, body } = asked;
  await service.call({ method: "POST", path: `${path}/${operation}`, body });
  await clock.advance(0);
  const endAt = new Date(clock.now() + asked.lifeMs).toISOString();
  expect(await service.call({ path })).toMatchObject({ status: 200, body: { endAt } });
});

test.for([
  { when: "before it is paused, by a year", backMs: YEAR_MS, isPausedBefore: false },
  { when: "before it is paused, by three seconds", backMs: 3_000, isPausedBefore: false },
  { when: "after it is paused, by a year", backMs: YEAR_MS, isPausedBefore: true },
])("no sandbox starts after its end, with a clock that is set back $when", async (row) => {
  const clock = createFakeClock(2 * YEAR_MS);
  await using service = await startTestService({ clock });
  const { sandboxID } = await service.create({ timeout: LIFE_MS / 1_000 });
  const path = `/sandboxes/${sandboxID}`;
  const pause = () => service.call({ method: "POST", path: `${path}/pause` });
  if (row.isPausedBefore) await pause();
  clock.set(clock.now() - row.backMs);
  if (!row.isPausedBefore) await pause();
  await clock.advance(LOOK_MS);
  const one = await service.call({ path });
  const all = await service.call({ path: "/v2/sandboxes" });
  const shown = z.array(times).parse([one.body, ...z.array(z.unknown()).parse(all.body)]);
  expect(shown.length).toBe(2);
  for (const { state, startedAt, endAt } of shown) {
    expect(state).toBe("paused");
    expect(Date.parse(startedAt)).toBeLessThanOrEqual(Date.parse(endAt));
  }
});

const times = z.looseObject({ state: z.string(), startedAt: z.string(), endAt: z.string() });

test("a deadline for the guardian that could not be written is written later", async () => {
  const clock = createFakeClock(2 * YEAR_MS);
  const layered = createLayerEngine();
  const deadlines: Deadline[] = [];
  let failures = 0;
  const setDeadline = (deadline: Deadline) => {
    failures -= 1;
    if (failures >= 0) throw new Error("no space now");
    deadlines.push(deadline);
  };
  const engine: Engine = {
    ...layered,
    create: async (spec, signal) =>
      Object.assign(await layered.create(spec, signal), { setDeadline }),
  };
  await using service = await startTestService({ clock, engine });
  await service.create({ timeout: LIFE_MS / 1_000 });
  clock.set(clock.now() - YEAR_MS);
  failures = 1;
  await clock.advance(LOOK_MS);
  const atMs = clock.now() + LIFE_MS;
  await clock.advance(1_000);
  await expect.poll(() => deadlines.at(-1)).toEqual({ atMs, action: "end" });
});
