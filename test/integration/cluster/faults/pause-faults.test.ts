/** A front that is taken for dead, or a fault, at each step of a pause and of a resume. */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../../support/at-step.ts";
import { endSandboxes, sendFront } from "../../../support/cluster/pod-front.ts";
import {
  createPaused,
  createWritten,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../../support/cluster/snapshot-world.ts";
import { IMAGE_STEPS } from "../../../support/faults/fault-cases.ts";

/** One second of five; every front that is taken for dead here is none of the two that run. */
const GRACE_SHARE = 0.2;
/** The graces of the leading front, and some of its rounds. */
const SETTLED = { timeout: 40_000, interval: 200 };
const LONG = 90_000;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE });
}, LONG);
afterEach(() => endSandboxes(place.world.api, place.url));
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown) => sendFront(place.url, call, body);

const hasPod = (id: string) => place.world.api.objects.has(`pods/${id}`);
const dataOf = (id: string) => Object(place.world.api.objects.get(`configmaps/${id}`)?.["data"]);
const stateOf = async (id: string) => (await send(`GET /sandboxes/${id}`)).body.state;
const readNew = async (id: string) => readFile(join(place.directory, id, "etc/new"), "utf8");

/** As if the front that changes the sandbox, and made images of it, had died. */
function orphan(id: string): void {
  const { api } = place.world;
  api.change(`configmaps/${id}`, (object) => {
    const data = Object(object["data"]);
    data.change = JSON.stringify({ ...JSON.parse(data.change), owner: "gone" });
  });
  for (const path of imagesOf(id)) {
    api.change(path, (object) => {
      const data = Object(object["data"]);
      data.snapshot = JSON.stringify({ ...JSON.parse(data.snapshot), owner: "gone" });
    });
  }
}

function imagesOf(id: string): string[] {
  return [...place.world.api.objects]
    .filter(([path, object]) => path.includes("/snapshot-") && JSON.stringify(object).includes(id))
    .map(([path]) => path);
}

async function expectWhole(id: string): Promise<void> {
  const { status } = await send(`POST /sandboxes/${id}/connect`, { timeout: 300 });
  expect([status, await readNew(id)]).toEqual([201, "new"]);
}

const [pausing, stopped, paused, parked] = IMAGE_STEPS.pause;
const BEFORE = [pausing, stopped, ...IMAGE_STEPS.take] as const;

test.for(BEFORE)(
  "a pause whose front is taken for dead at %s is finished by another",
  { timeout: LONG },
  async (step) => {
    const id = await createWritten(place);
    using held = atStep(step, async () => {
      orphan(id);
      await expect
        .poll(async () => (await stateOf(id)) + dataOf(id).change, SETTLED)
        .toBe("pausedundefined");
    });
    const { status } = await send(`POST /sandboxes/${id}/pause`);
    expect(held.wasReached).toBe(true);
    expect([503, 409]).toContain(status);
    await expect.poll(() => hasPod(id), SETTLED).toBe(false);
    await expectWhole(id);
    await expect.poll(() => imagesOf(id).length, SETTLED).toBe(1);
  },
);

test.for(BEFORE)("a fault at %s leaves a sandbox that runs on", { timeout: LONG }, async (step) => {
  const id = await createWritten(place);
  using held = atStep(step, async () => {
    throw new Error("planned");
  });
  const { status } = await send(`POST /sandboxes/${id}/pause`);
  expect([held.wasReached, status, await stateOf(id)]).toEqual([true, 500, "running"]);
  expect([hasPod(id), place.world.daemons.areStopped(id)]).toEqual([true, false]);
  await expect.poll(() => imagesOf(id), SETTLED).toEqual([]);
});

test.for([paused, parked])(
  "a fault at %s: it is paused all the same",
  { timeout: LONG },
  async (step) => {
    const id = await createWritten(place);
    using held = atStep(step, async () => {
      throw new Error("planned");
    });
    await send(`POST /sandboxes/${id}/pause`);
    expect([held.wasReached, await stateOf(id)]).toEqual([true, "paused"]);
    await expect.poll(() => hasPod(id), SETTLED).toBe(false);
    await expectWhole(id);
  },
);

const RESUMING = ["pod.resuming", "pod.made", "pod.running", "pod.told"] as const;

test.for(RESUMING)(
  "a resume whose front is taken for dead at %s is undone, and the next one succeeds",
  { timeout: LONG },
  async (step) => {
    const id = await createPaused(place);
    using held = atStep(step, async () => {
      orphan(id);
      await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    });
    const { status } = await send(`POST /sandboxes/${id}/connect`, { timeout: 300 });
    expect([held.wasReached, status, await stateOf(id)]).toEqual([true, 503, "paused"]);
    await expectWhole(id);
  },
);

test.for(RESUMING)("a resume with a fault at %s is undone", { timeout: LONG }, async (step) => {
  const id = await createPaused(place);
  using held = atStep(step, async () => {
    throw new Error("planned");
  });
  const { status } = await send(`POST /sandboxes/${id}/connect`, { timeout: 300 });
  expect([held.wasReached, status, await stateOf(id)]).toEqual([true, 500, "paused"]);
  expect(hasPod(id)).toBe(false);
  await expectWhole(id);
});

test("one that is killed while it is paused or resumed is gone", { timeout: LONG }, async () => {
  for (const step of ["pod.stopped", "pod.running"] as const) {
    const id = step === "pod.stopped" ? await createWritten(place) : await createPaused(place);
    using held = atStep(step, async () => {
      expect((await send(`DELETE /sandboxes/${id}`)).status).toBe(204);
    });
    const verb = step === "pod.stopped" ? "pause" : "resume";
    const { status } = await send(`POST /sandboxes/${id}/${verb}`, {});
    expect([held.wasReached, status >= 400]).toEqual([true, true]);
    expect([hasPod(id), (await send(`GET /sandboxes/${id}`)).status]).toEqual([false, 404]);
  }
});
