/** What builds leave goes by its age, also in a service that runs on without another build. */

import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../src/store/sqlite.ts";
import { READY_BUILD } from "../support/engine/build-record.ts";
import { RUNNING } from "../support/engine/running-build.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const STEP = "00000000-0000-4000-8000-000000000001";
const IMAGE = `image-${"ab".repeat(16)}-1`;
const ARCHIVE = "cd".repeat(32);

/** A service with a cached step upon an image, the archive of a build, and a request without steps. */
async function startAfterBuild() {
  await using stack = new AsyncDisposableStack();
  const clock = createFakeClock(Date.now());
  const { home } = stack.use(await startTestService({ clock }));
  const store = stack.use(openStore({ path: join(home, "state.db") }));
  const createdAtMs = clock.now();
  const layers = [{ root: `${IMAGE}/root` }, { root: `${STEP}/root` }];
  const step = { ...READY_BUILD, templateId: "cache:local", cacheKey: "key", createdAtMs, layers };
  store.builds.put({ ...step, buildId: STEP });
  store.templateBuilds.put({ ...RUNNING, status: "waiting", createdAtMs });
  for (const name of [IMAGE, STEP])
    await mkdir(join(home, "layers", name, "root"), { recursive: true });
  const archive = join(home, "uploads", ARCHIVE);
  await writeFile(archive, "of a COPY step");
  await utimes(archive, createdAtMs / 1_000, createdAtMs / 1_000);
  const owned = stack.move();
  return {
    clock,
    look: async () => ({
      requests: store.templateBuilds.ids(),
      steps: store.builds.withoutTemplate().map(({ buildId }) => buildId),
      layers: (await readdir(join(home, "layers"))).toSorted(),
      archives: await readdir(join(home, "uploads")),
    }),
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}

/** The next look of the service, for which the clock was set by so much. */
async function lookLater(clock: FakeClock, ms: number): Promise<void> {
  // The look before has ended.
  await expect.poll(() => clock.isAwaited(HOUR_MS)).toBe(true);
  clock.set(clock.now() + ms);
  await clock.advance(HOUR_MS);
}

test("a day without a build takes archives and requests, two weeks also steps and their images", async () => {
  await using service = await startAfterBuild();
  const { clock, look } = service;
  const all = {
    requests: [RUNNING.buildId],
    steps: [STEP],
    layers: [STEP, IMAGE],
    archives: [ARCHIVE],
  };
  await lookLater(clock, 0);
  expect(await look()).toEqual(all);
  await lookLater(clock, DAY_MS);
  const afterDay = { ...all, requests: [], archives: [] };
  await expect.poll(look).toEqual(afterDay);
  await lookLater(clock, 14 * DAY_MS);
  await expect.poll(look).toEqual({ ...afterDay, steps: [], layers: [] });
});

test("what was left by a clock that was far ahead goes when it is right", async () => {
  await using service = await startAfterBuild();
  await lookLater(service.clock, -15 * DAY_MS);
  const nothing = { requests: [], steps: [], layers: [], archives: [] };
  await expect.poll(service.look).toEqual(nothing);
});
