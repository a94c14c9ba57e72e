/** Answers that are lost and fronts that are slow amid a pause or a resume: the sandbox is never lost. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../../support/at-step.ts";
import { endSandboxes, sendFront } from "../../../support/cluster/pod-front.ts";
import {
  createPaused,
  createWritten,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../../support/cluster/snapshot-world.ts";

/** Half a minute stands for half an hour. */
const GRACE_SHARE = 0.02;
const SETTLED = { timeout: 30_000, interval: 100 };
const LONG = 90_000;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE });
}, LONG);
afterEach(() => endSandboxes(place.world.api, place.url));
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown, base = place.url) =>
  sendFront(base, call, body);

const hasPod = (id: string) => place.world.api.objects.has(`pods/${id}`);
const dataOf = (id: string) => Object(place.world.api.objects.get(`configmaps/${id}`)?.["data"]);
const stateOf = async (id: string) => (await send(`GET /sandboxes/${id}`)).body.state;

/** As if the front that changes the sandbox had died. */
function orphan(id: string): void {
  place.world.api.change(`configmaps/${id}`, (object) => {
    const data = Object(object["data"]);
    data.change = JSON.stringify({ ...JSON.parse(data.change), owner: "gone" });
  });
}

test("a pause that ends slowly leaves the Pod of the next run", async () => {
  const id = await createWritten(place);
  using held = atStep("pod.paused", async () => {
    const { status } = await send(`POST /sandboxes/${id}/connect`, { timeout: 300 }, place.second);
    expect(status).toBe(201);
  });
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  expect([held.wasReached, hasPod(id), await stateOf(id)]).toEqual([true, true, "running"]);
});

test.for(["pause", "resume"] as const)(
  "a %s whose first answer is lost leaves the sandbox free for the next one",
  { timeout: LONG },
  async (verb) => {
    const id = verb === "pause" ? await createWritten(place) : await createPaused(place);
    place.world.api.loseNextReply(`configmaps/${id}`);
    expect((await send(`POST /sandboxes/${id}/${verb}`, {})).status).toBe(503);
    await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    expect((await send(`POST /sandboxes/${id}/${verb}`, {})).status).toBeLessThan(300);
  },
);

test(
  "a pause that is taken over, and whose answer about that is lost, does not stay",
  { timeout: LONG },
  async () => {
    const id = await createWritten(place);
    using held = atStep("pod.stopped", async () => {
      place.world.api.loseNextReply(`configmaps/${id}`);
      orphan(id);
      await expect.poll(() => String(dataOf(id).change), SETTLED).not.toContain("gone");
    });
    await send(`POST /sandboxes/${id}/pause`, undefined, place.second);
    expect(held.wasReached).toBe(true);
    await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    expect([await stateOf(id), place.world.daemons.areStopped(id)]).toEqual(["running", false]);
  },
);

test(
  "a resume that ends while it is undone for a front that is taken for dead is not lost",
  { timeout: LONG },
  async () => {
    const id = await createPaused(place);
    const { api } = place.world;
    const answered = Promise.withResolvers<number>();
    using held = atStep("pod.told", async () => {
      let isUndone = false;
      api.before(`DELETE pods/${id}`, async () => {
        isUndone = true;
        await answered.promise;
      });
      const loseLease = () => {
        const leases = [...api.objects.keys()].filter((path) => path.startsWith("leases/f-front2"));
        for (const path of leases) api.remove(path);
        return isUndone;
      };
      await expect.poll(loseLease, { timeout: 20_000, interval: 20 }).toBe(true);
    });
    const connect = `POST /sandboxes/${id}/connect` as const;
    const { status } = await send(connect, { timeout: 300 }, place.second);
    answered.resolve(status);
    expect([held.wasReached, status]).toEqual([true, 503]);
    await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    expect((await send(connect, { timeout: 300 })).status).toBe(201);
    expect([hasPod(id), await stateOf(id)]).toEqual([true, "running"]);
  },
);

test(
  "a front that is taken for dead before it starts a Pod leaves that of the next run",
  { timeout: LONG },
  async () => {
    const id = await createPaused(place);
    const connect = `POST /sandboxes/${id}/connect` as const;
    const uidOf = () => place.world.api.objects.get(`pods/${id}`)?.metadata.uid;
    let uid: string | undefined;
    using held = atStep("pod.resuming", async () => {
      orphan(id);
      await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
      expect((await send(connect, { timeout: 300 })).status).toBe(201);
      uid = uidOf();
    });
    const { status } = await send(connect, { timeout: 300 }, place.second);
    expect([held.wasReached, status]).toEqual([true, 503]);
    expect([uidOf(), await stateOf(id)]).toEqual([uid, "running"]);
  },
);

test(
  "one whose pause was once taken over in vain is still paused at its timeout",
  { timeout: LONG },
  async () => {
    const id = await createWritten(place, { timeout: 8, autoPause: true });
    using held = atStep("pod.stopped", async () => {
      using again = atStep("pod.pausing", async () => {
        throw new Error("planned");
      });
      orphan(id);
      await expect.poll(() => again.wasReached, SETTLED).toBe(true);
      await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    });
    await send(`POST /sandboxes/${id}/pause`);
    expect([held.wasReached, await stateOf(id)]).toEqual([true, "running"]);
    await expect.poll(async () => stateOf(id), SETTLED).not.toBe("running");
    expect(await stateOf(id)).toBe("paused");
  },
);

test(
  "a daemon that does not let its programs go on keeps no sandbox beyond its timeout",
  { timeout: LONG },
  async () => {
    const { daemons } = place.world;
    const id = await createWritten(place, { timeout: 300 });
    daemons.isStubborn = true;
    try {
      using held = atStep("pod.stopped", async () => {
        throw new Error("planned");
      });
      await send(`POST /sandboxes/${id}/pause`);
      expect(held.wasReached).toBe(true);
      await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
    } finally {
      daemons.isStubborn = false;
    }
    expect(await stateOf(id)).toBe("running");
  },
);
