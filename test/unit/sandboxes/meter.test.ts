/** Samples over time: when they are taken, how many are kept, which are told. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startUsageMeter } from "../../../src/sandboxes/usage-meter.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const ALL = { startMs: undefined, endMs: undefined };

function setUp() {
  const clock = createFakeClock(0);
  let looks = 0;
  let memoryBytes = 1;
  const container = {
    async readUsage() {
      looks += 1;
      // Half of one of two processors.
      const cpuMs = clock.now() / 2;
      const disk = { diskBytes: 3, diskTotalBytes: 4 };
      return { cpuMs, memoryBytes, cacheBytes: 2, outOfMemoryKills: looks, ...disk };
    },
  };
  const record = { sandboxId: "ia", limits: { cpus: 2, memoryMb: 512, diskMb: 1, pids: 1 } };
  const entry = { container, record, run: {} };
  const entries = new Map([["ia", entry]]);
  const meter = startUsageMeter({ clock, log: createSilentLog(), entries });
  const use = (bytes: number) => (memoryBytes = bytes);
  return { clock, meter, entries, entry, looks: () => looks, use };
}

test("a sandbox that runs is measured every 5 s", async () => {
  const { clock, meter } = setUp();
  meter.note();
  meter.note();
  await clock.advance(12 * SECOND);
  const facts = { cpuCount: 2, memoryTotalBytes: 536_870_912, diskBytes: 3, diskTotalBytes: 4 };
  expect(meter.read("ia", ALL)).toEqual(
    [0, 5, 10].map((second) => ({
      ...facts,
      atMs: second * SECOND,
      cpuUsedPercent: second === 0 ? 0 : 25,
      memoryBytes: 1,
      cacheBytes: 2,
      outOfMemoryKills: second / 5 + 1,
    })),
  );
  expect(meter.read("ia", { startMs: 1, endMs: 6 * SECOND })).toHaveLength(1);
  expect(meter.latest("ia")?.atMs).toBe(10 * SECOND);
  expect([meter.read("ib", ALL), meter.latest("ib")]).toEqual([[], undefined]);
  await meter[Symbol.asyncDispose]();
});

test("a sample of this moment is not kept, and what does not run has none", async () => {
  const { clock, meter, entry } = setUp();
  meter.note();
  await clock.advance(7 * SECOND);
  expect(await meter.measure("ia")).toMatchObject({
    atMs: 7 * SECOND,
    cpuUsedPercent: 25,
    outOfMemoryKills: 3,
  });
  expect(meter.read("ia", ALL).map(({ atMs }) => atMs)).toEqual([0, 5 * SECOND]);
  expect(await meter.measure("ib")).toBeUndefined();
  Object.assign(entry, { run: undefined });
  expect(await meter.measure("ia")).toBeUndefined();
  await meter[Symbol.asyncDispose]();
});

test("nothing is looked at while nothing runs", async () => {
  const { clock, meter, entry, looks } = setUp();
  meter.note();
  await clock.advance(SECOND);
  Object.assign(entry, { run: undefined });
  await clock.advance(HOUR);
  expect(looks()).toBe(1);
  Object.assign(entry, { run: {} });
  meter.note();
  await clock.advance(SECOND);
  expect(looks()).toBe(2);
  await meter[Symbol.asyncDispose]();
});

test("old samples thin out, and long ranges are told in long steps", async () => {
  const { clock, meter, entries } = setUp();
  meter.note();
  await clock.advance(3 * HOUR);
  const whole = meter.read("ia", ALL);
  expect(whole.length).toBeGreaterThan(200);
  expect(whole.length).toBeLessThan(400);
  const lastMinute = { startMs: 3 * HOUR - 60 * SECOND, endMs: undefined };
  expect(meter.read("ia", lastMinute).length).toBeGreaterThanOrEqual(12);
  entries.clear();
  meter.forget("ia");
  expect(meter.read("ia", ALL)).toEqual([]);
  await meter[Symbol.asyncDispose]();
});

test.for([30, 7 * 60])(
  "a peak of 5 s is told in long steps, too, %d minutes later",
  async (minutes) => {
    const { clock, meter, use } = setUp();
    meter.note();
    await clock.advance(2 * HOUR + 17 * SECOND);
    use(1_000);
    await clock.advance(5 * SECOND);
    use(1);
    await clock.advance(minutes * 60 * SECOND);
    use(7);
    await clock.advance(5 * SECOND);
    const told = meter.read("ia", ALL).map(({ memoryBytes }) => memoryBytes);
    expect([Math.max(...told), told.filter((bytes) => bytes === 1_000).length]).toEqual([1_000, 1]);
    expect([told.at(-1), told.at(-2)]).toEqual([7, 1]);
    await meter[Symbol.asyncDispose]();
  },
);

test("after a pause of days, what was used before is not told with what is used now", async () => {
  const { clock, meter, entry } = setUp();
  meter.note();
  await clock.advance(2 * HOUR);
  Object.assign(entry, { run: undefined });
  await clock.advance(8 * 24 * HOUR);
  // Until then it is all that there is.
  expect(meter.read("ia", ALL).length).toBeGreaterThan(100);
  const resumedAtMs = clock.now();
  Object.assign(entry, { run: {} });
  meter.note();
  await clock.advance(600 * SECOND);
  const told = meter.read("ia", ALL).map(({ atMs }) => atMs - resumedAtMs);
  expect(told).toEqual(Array.from({ length: 121 }, (_, index) => 5 * index * SECOND));
  await meter[Symbol.asyncDispose]();
});
