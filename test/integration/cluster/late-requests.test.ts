/** Requests that are carried out after their front had given them up: nothing of them stays, nothing waits for them. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { callFront, sendFront } from "../../support/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../support/snapshot-world.ts";

const LONG = 60_000;
const SETTLED = { timeout: 40_000, interval: 50 };
/** Three minutes become three seconds, twenty minutes eighteen. */
const GRACE_SHARE = 0.015;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE, more: { maxSandboxes: 2 } });
}, LONG);
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
    carryOut();
    await expect.poll(() => recordsOf("i")).toHaveLength(1);
    await expect.poll(() => recordsOf("i"), SETTLED).toEqual([]);
    const other = place[front === "url" ? "second" : "url"];
    for (let count = 0; count < 2; count += 1) expect((await create(other)).status).toBe(201);
    for (const path of recordsOf("i")) {
      await sendFront(other, `DELETE /sandboxes/${path.replace("configmaps/", "")}`);
    }
  },
);

test("the key of a create that its front gave up is free again", { timeout: LONG }, async () => {
  const headers = { "idempotency-key": "late" };
  const carryOut = place.world.api.carryOutLate("POST configmaps");
  expect((await create(place.url, headers)).status).toBe(503);
  carryOut();
  await expect.poll(() => recordsOf("creation-")).toHaveLength(1);
  expect((await create(place.url, headers)).status).toBe(409);
  await expect.poll(() => recordsOf("creation-"), SETTLED).toEqual([]);
  expect((await create(place.second, headers)).status).toBe(201);
});

test("a snapshot that its front gave up leaves no record", { timeout: LONG }, async () => {
  const [path = ""] = recordsOf("i");
  const carryOut = place.world.api.carryOutLate("POST configmaps");
  const id = path.replace("configmaps/", "");
  expect((await sendFront(place.url, `POST /sandboxes/${id}/snapshots`, {})).status).toBe(503);
  carryOut();
  await expect.poll(() => recordsOf("snapshot-")).toHaveLength(1);
  await expect.poll(() => recordsOf("snapshot-"), SETTLED).toEqual([]);
});
