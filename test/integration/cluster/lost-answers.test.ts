/** Creates of objects whose answer is lost, and registries and daemons that fail: what is left, what is said. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { sendFront } from "../../support/cluster/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../support/cluster/snapshot-world.ts";

const SETTLED = { timeout: 20_000, interval: 50 };
const LONG = 60_000;

let place: SnapshotWorld;

beforeAll(async () => {
  const pool = [{ template: "base", size: 1 }];
  place = await startSnapshotWorld({ more: { pool } });
}, LONG);
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown) => sendFront(place.url, call, body);

const namesOf = (start: string) =>
  [...place.world.api.objects.keys()].filter((path) => path.startsWith(start));

async function create(): Promise<string> {
  const { status, body } = await send("POST /sandboxes", { templateID: "base", timeout: 300 });
  expect({ status, body }).toMatchObject({ status: 201 });
  return body.sandboxID;
}

const hasPooled = () =>
  [...place.world.api.objects].some(
    ([path, { metadata, status }]) =>
      path.startsWith("pods/") &&
      metadata.labels?.["sandbox-mcp.io/part"] === "pool" &&
      Object(status).phase === "Running",
  );

test("a snapshot whose record was written without an answer leaves none", async () => {
  const id = await create();
  place.world.api.loseNextReply("configmaps");
  expect((await send(`POST /sandboxes/${id}/snapshots`, {})).status).toBe(503);
  await expect.poll(() => namesOf("configmaps/snapshot-"), SETTLED).toEqual([]);
});

test(
  "a claim whose record was written without an answer leaves none",
  { timeout: LONG },
  async () => {
    await expect.poll(hasPooled, SETTLED).toBe(true);
    const before = namesOf("configmaps/i");
    place.world.api.loseNextReply("configmaps");
    expect((await send("POST /sandboxes", { templateID: "base" })).status).toBe(503);
    await expect.poll(() => namesOf("configmaps/i"), SETTLED).toEqual(before);
  },
);

test(
  "a pooled Pod whose claim was refused is seen by its front when it is claimed later",
  { timeout: LONG },
  async () => {
    await expect.poll(hasPooled, SETTLED).toBe(true);
    place.world.api.refuseNext("configmaps", { status: 500, reason: "", message: "planned" });
    expect((await send("POST /sandboxes", { templateID: "base" })).status).toBe(503);
    await expect.poll(hasPooled, SETTLED).toBe(true);
    const id = await create();
    expect((await send(`GET /sandboxes/${id}`)).status).toBe(200);
  },
);

test("without its image in the registry a sandbox is not said to be missing", async () => {
  const id = await create();
  place.world.api.change(`pods/${id}`, ({ spec }) => {
    const [container] = Object(spec).containers;
    container.image = String(container.image).replace("/base:", "/gone:");
  });
  const statuses = [
    await send(`POST /sandboxes/${id}/snapshots`, {}),
    await send(`POST /sandboxes/${id}/pause`),
  ].map(({ status }) => status);
  expect(statuses).toEqual([409, 503]);
});
