/** Objects that were copied or edited by hand: the leading front removes nothing of others because of them. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { callFront, endSandboxes, sendFront } from "../../support/cluster/pod-front.ts";
import {
  createWritten,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../support/cluster/snapshot-world.ts";

const GRACE_SHARE = 0.02;
const SETTLED = { timeout: 30_000, interval: 50 };
const LONG = 60_000;

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE });
}, LONG);
afterEach(() => endSandboxes(place.world.api, place.url));
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown) => sendFront(place.url, call, body);
const objects = () => place.world.api.objects;

/** The record of a ConfigMap with some fields in the place of its own. */
function edited(path: string, key: "record" | "snapshot", fields: object): string {
  const data = Object(objects().get(path)?.["data"]);
  return JSON.stringify({ ...JSON.parse(data[key]), ...fields });
}

function edit(path: string, key: "record" | "snapshot", fields: object): void {
  const text = edited(path, key, fields);
  place.world.api.change(path, ({ data }) => void Object.assign(Object(data), { [key]: text }));
}

async function post(name: string, labels: object, data: object): Promise<void> {
  const made = await fetch(`${place.world.api.url}/api/v1/namespaces/test/configmaps`, {
    method: "POST",
    body: JSON.stringify({ metadata: { name, labels }, data }),
  });
  expect(made.status).toBe(201);
}

test("a copy of a record that says that it ends does not end its sandbox", async () => {
  const [id, other] = [await createWritten(place), await createWritten(place)];
  const path = `configmaps/${id}`;
  const copy = `i${"c".repeat(20)}`;
  const record = edited(path, "record", { state: "ending" });
  await post(copy, objects().get(path)?.metadata.labels ?? {}, { record });
  // What is due later is done later.
  edit(`configmaps/${other}`, "record", { state: "ending" });
  await expect.poll(() => objects().has(`pods/${other}`), SETTLED).toBe(false);
  expect([objects().has(`pods/${id}`), objects().has(path)]).toEqual([true, true]);
  place.world.api.remove(`configmaps/${copy}`);
});

const imagesOf = (id: string) =>
  [...objects().keys()].filter(
    (path) =>
      path.startsWith("configmaps/snapshot-") && edited(path, "snapshot", {}).includes(`"${id}"`),
  );

test(
  "the image of a paused sandbox whose record cannot be read stays",
  { timeout: LONG },
  async () => {
    const [id, other] = [await createWritten(place), await createWritten(place)];
    for (const one of [id, other]) {
      expect((await send(`POST /sandboxes/${one}/pause`)).status).toBe(204);
    }
    edit(`configmaps/${id}`, "record", { state: "of a newer version" });
    place.world.api.remove(`configmaps/${other}`);
    await expect.poll(() => imagesOf(other), SETTLED).toEqual([]);
    expect(imagesOf(id)).toHaveLength(1);
    edit(`configmaps/${id}`, "record", { state: "paused" });
    expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(201);
  },
);

function buildOf(id: string): string {
  return JSON.parse(edited(`configmaps/${id}`, "record", {})).buildId;
}

test("a paused sandbox whose record names the image of another one is not resumed", async () => {
  const [id, other] = [await createWritten(place), await createWritten(place)];
  for (const one of [id, other]) {
    expect((await send(`POST /sandboxes/${one}/pause`)).status).toBe(204);
  }
  const own = buildOf(id);
  edit(`configmaps/${id}`, "record", { buildId: buildOf(other) });
  const { status } = await send(`POST /sandboxes/${id}/resume`, {});
  expect([status, objects().has(`pods/${id}`)]).toEqual([503, false]);
  edit(`configmaps/${id}`, "record", { buildId: own });
});

test("a create, with a key or without, whose records another client labels meanwhile runs", async () => {
  const { api } = place.world;
  let isLabeling = true;
  api.onChange((type, plural, { metadata: { name } }) => {
    if (!isLabeling || type !== "ADDED" || plural !== "configmaps") return;
    queueMicrotask(() =>
      api.change(`configmaps/${name}`, ({ metadata }) => {
        metadata.labels = { ...metadata.labels, "example.com/seen": "yes" };
      }),
    );
  });
  const id = await createWritten(place);
  const request = {
    method: "POST",
    path: "/sandboxes",
    body: { templateID: "base", timeout: 300 },
    headers: { "Idempotency-Key": "labeled" },
  };
  const keyed = await callFront(place.url, request);
  expect(keyed.status).toBe(201);
  isLabeling = false;
  expect(await callFront(place.url, request)).toMatchObject({ status: 201, body: keyed.body });
  expect((await send(`GET /sandboxes/${id}`)).body).toMatchObject({ state: "running" });
  expect(objects().get(`configmaps/${id}`)?.metadata.labels).toMatchObject({
    "example.com/seen": "yes",
  });
});
