/** Requests that are carried out after their front had given them up: nothing of them stays, nothing waits for them. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../../support/at-step.ts";
import { callFront, endSandboxes, sendFront } from "../../../support/cluster/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../../support/cluster/snapshot-world.ts";

const LONG = 60_000;
const SETTLED = { timeout: 40_000, interval: 50 };
/** Three minutes become three seconds, twenty minutes eighteen. */
const GRACE_SHARE = 0.015;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE, more: { maxSandboxes: 2 } });
}, LONG);
afterEach(() => endSandboxes(place.world.api, place.url));
afterAll(async () => place[Symbol.asyncDispose]());

const recordsOf = (start: string) =>
  [...place.world.api.objects.keys()].filter((path) => path.startsWith(`configmaps/${start}`));

const create = async (url: string, headers: Readonly<Record<string, string>> = {}) =>
  callFront(url, {
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base", timeout: 300 },
    headers,
  });

test.for(["url", "second"] as const)(
  "the record of a start that its front gave up counts against no limit for ever (%s)",
  { timeout: LONG },
  async (front) => {
    const carryOut = place.world.api.carryOutLate("POST configmaps");
    expect((await create(place[front])).status).toBe(503);
    await carryOut();
    await expect.poll(() => recordsOf("i")).toHaveLength(1);
    await expect.poll(() => recordsOf("i"), SETTLED).toEqual([]);
    const other = place[front === "url" ? "second" : "url"];
    for (let count = 0; count < 2; count += 1) expect((await create(other)).status).toBe(201);
  },
);

test("the key of a create that its front gave up is free again", { timeout: LONG }, async () => {
  const headers = { "idempotency-key": "late" };
  const carryOut = place.world.api.carryOutLate("POST configmaps");
  expect((await create(place.url, headers)).status).toBe(503);
  await carryOut();
  await expect.poll(() => recordsOf("creation-")).toHaveLength(1);
  expect((await create(place.url, headers)).status).toBe(409);
  await expect.poll(() => recordsOf("creation-"), SETTLED).toEqual([]);
  expect((await create(place.second, headers)).status).toBe(201);
});

test("a snapshot that its front gave up leaves no record", { timeout: LONG }, async () => {
  const { sandboxID } = Object((await create(place.url)).body);
  const carryOut = place.world.api.carryOutLate("POST configmaps");
  const route = `POST /sandboxes/${sandboxID}/snapshots` as const;
  expect((await sendFront(place.url, route, {})).status).toBe(503);
  await carryOut();
  await expect.poll(() => recordsOf("snapshot-")).toHaveLength(1);
  await expect.poll(() => recordsOf("snapshot-"), SETTLED).toEqual([]);
});

const dataOf = (id: string) => Object(place.world.api.objects.get(`configmaps/${id}`)?.["data"]);
const stateOf = async (id: string) =>
  (await sendFront(place.url, `GET /sandboxes/${id}`)).body.state;

async function createPaused(): Promise<string> {
  const { status, body } = await create(place.url);
  expect(status).toBe(201);
  const { sandboxID } = Object(body);
  expect((await sendFront(place.url, `POST /sandboxes/${sandboxID}/pause`)).status).toBe(204);
  return sandboxID;
}

test("a pause and a resume that their front gave up are not begun", { timeout: LONG }, async () => {
  const { status, body } = await create(place.url);
  expect(status).toBe(201);
  const { sandboxID } = Object(body);
  const path = `configmaps/${sandboxID}`;
  for (const [call, more] of [
    ["pause", undefined],
    ["connect", { timeout: 300 }],
  ] as const) {
    const carryOut = place.world.api.carryOutLate(`PATCH ${path}`);
    const route = `POST /sandboxes/${sandboxID}/${call}` as const;
    expect((await sendFront(place.url, route, more)).status).toBe(503);
    await carryOut();
    expect(dataOf(sandboxID).change).toBeUndefined();
    expect((await sendFront(place.second, route, more)).status).toBe(call === "pause" ? 204 : 201);
  }
});

test(
  "a resume that counts while its front undoes it keeps its Pod",
  { timeout: LONG },
  async () => {
    const id = await createPaused();
    const { api } = place.world;
    using told = atStep("pod.told", async () => {
      const carryOut = api.carryOutLate(`PATCH configmaps/${id}`);
      api.before(`DELETE pods/${id}`, async () => {
        await carryOut();
      });
    });
    const { status } = await sendFront(place.url, `POST /sandboxes/${id}/connect`, {
      timeout: 300,
    });
    expect([told.wasReached, status]).toEqual([true, 503]);
    await sendFront(place.url, `POST /sandboxes/${id}/connect`, { timeout: 300 });
    expect([await stateOf(id), api.objects.has(`pods/${id}`)]).toEqual(["running", true]);
  },
);

test("a change that no front carries out ends", { timeout: LONG }, async () => {
  const id = await createPaused();
  const { api } = place.world;
  const [lease = ""] = [...api.objects.keys()].filter((path) => path.startsWith("leases/"));
  const change = { kind: "resuming", owner: lease.replace("leases/", ""), attempt: "forgotten" };
  api.change(`configmaps/${id}`, ({ data }) => {
    Object(data).change = JSON.stringify(change);
  });
  await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
  expect(await stateOf(id)).toBe("paused");
});

test(
  "a change that follows others without a gap has its whole time",
  { timeout: LONG },
  async () => {
    const id = await createPaused();
    const { api } = place.world;
    const [lease = ""] = [...api.objects.keys()].filter((path) => path.startsWith("leases/"));
    const owner = lease.replace("leases/", "");
    let count = 0;
    const beginNext = () => {
      const found = dataOf(id).change;
      if (count > 0 && (found === undefined || JSON.parse(found).attempt !== String(count)))
        return -1;
      count += 1;
      api.change(`configmaps/${id}`, ({ data }) => {
        Object(data).change = JSON.stringify({ kind: "resuming", owner, attempt: String(count) });
      });
      return count;
    };
    // Longer in sum than one of them may take.
    await expect.poll(beginNext, { timeout: 20_000, interval: 100 }).toBe(50);
    await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
  },
);

test(
  "a pause that counts while its front undoes it lets no program go on",
  { timeout: LONG },
  async () => {
    const { status, body } = await create(place.url);
    expect(status).toBe(201);
    const { sandboxID: id } = Object(body);
    const { api, daemons } = place.world;
    let areStopped: boolean | undefined;
    using taken = atStep("image.committed", async () => {
      const carryOut = api.carryOutLate(`PATCH configmaps/${id}`);
      api.before(`PATCH configmaps/${id}`, async () => {
        areStopped = daemons.areStopped(id);
        await carryOut();
      });
    });
    expect((await sendFront(place.url, `POST /sandboxes/${id}/pause`)).status).toBe(503);
    await expect.poll(() => stateOf(id), SETTLED).toBe("paused");
    expect([taken.wasReached, areStopped]).toEqual([true, true]);
    await expect.poll(() => api.objects.has(`pods/${id}`), SETTLED).toBe(false);
  },
);

test(
  "a pause whose front died does not stay with the front that takes it over late",
  { timeout: LONG },
  async () => {
    const { api } = place.world;
    const { sandboxID: id } = Object((await create(place.url)).body);
    const path = `configmaps/${id}`;
    const carryOut = api.carryOutLate(`PATCH ${path}`);
    const isSentAgain = Promise.withResolvers<void>();
    api.before(`PATCH ${path}`, async () => {
      isSentAgain.resolve();
      await carryOut();
    });
    api.change(path, ({ data }) => {
      const change = { kind: "pausing", owner: "gone", attempt: "first" };
      Object(data).change = JSON.stringify(change);
    });
    await isSentAgain.promise;
    // Half an hour would be 27 seconds.
    const soon = { timeout: 15_000, interval: 50 };
    await expect.poll(() => dataOf(id).change, soon).toBeUndefined();
  },
);
