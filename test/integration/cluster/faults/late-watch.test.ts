/** The leading front while one of its watches is late: it removes nothing that another front has made. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../../support/at-step.ts";
import { callFront, endSandboxes, sendFront } from "../../../support/cluster/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../../support/cluster/snapshot-world.ts";

const GRACE_SHARE = 0.02;
const SETTLED = { timeout: 20_000, interval: 50 };
const LONG = 60_000;
const RECORDS = "app.kubernetes.io/managed-by=sandbox-mcp,sandbox-mcp.io/part=sandbox";
const SNAPSHOTS = "app.kubernetes.io/managed-by=sandbox-mcp,sandbox-mcp.io/part=snapshot";
const PODS = "app.kubernetes.io/managed-by=sandbox-mcp";

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld({ graceShare: GRACE_SHARE });
}, LONG);
afterEach(() => endSandboxes(place.world.api, place.second));
afterAll(async () => place[Symbol.asyncDispose]());

/** Through the front that does not lead. */
const send = (call: `${string} ${string}`, body?: unknown) => sendFront(place.second, call, body);

async function create(more: object = {}): Promise<string> {
  const wanted = { templateID: "base", timeout: 300, ...more };
  const { status, body } = await send("POST /sandboxes", wanted);
  expect({ status, body }).toMatchObject({ status: 201 });
  return body.sandboxID;
}

/** The next of these calls, which is what the leading front does about the sandbox. */
async function nextOf(...wanted: readonly string[]): Promise<string | undefined> {
  const { calls } = place.world.api;
  const from = calls.length;
  const find = () => calls.slice(from).find((call) => wanted.includes(call));
  await expect.poll(find, SETTLED).toBeDefined();
  return find();
}

/** Until the end of a test. */
let late: Disposable | undefined;
afterEach(() => late?.[Symbol.dispose]());

function delay(plural: string, selector: string): void {
  late = place.world.api.delayWatch(plural, selector);
}

const has = (path: string) => place.world.api.objects.has(path);

test("a sandbox whose Pod is seen late goes on", { timeout: LONG }, async () => {
  delay("pods", PODS);
  const id = await create();
  expect(await nextOf(`GET pods/${id}`, `DELETE pods/${id}`)).toBe(`GET pods/${id}`);
  expect([has(`pods/${id}`), has(`configmaps/${id}`)]).toEqual([true, true]);
});

test("a sandbox that is to be paused and whose Pod is seen late is not ended at its time", async () => {
  delay("pods", PODS);
  const id = await create({ timeout: 1, autoPause: true });
  const state = () =>
    JSON.parse(Object(place.world.api.objects.get(`configmaps/${id}`)).data.record).state;
  await expect.poll(state, SETTLED).not.toBe("running");
  expect(state()).toBe("paused");
});

test("a Pod whose record is seen late stays", { timeout: LONG }, async () => {
  delay("configmaps", RECORDS);
  const id = await create();
  expect(await nextOf(`GET configmaps/${id}`, `DELETE pods/${id}`)).toBe(`GET configmaps/${id}`);
  expect(has(`pods/${id}`)).toBe(true);
});

test("the Pod of a resume that is seen late stays", { timeout: LONG }, async () => {
  const id = await create();
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  // The leading front takes it for paused.
  const { status, body } = await callFront(place.url, { path: `/sandboxes/${id}` });
  expect([status, Object(body).state]).toEqual([200, "paused"]);
  delay("configmaps", RECORDS);
  expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(201);
  expect(await nextOf(`GET configmaps/${id}`, `DELETE pods/${id}`)).toBe(`GET configmaps/${id}`);
  expect(has(`pods/${id}`)).toBe(true);
});

/** A Pod that is being removed, and whose node does nothing about it. */
async function postDeleted(name: string, more: object = {}): Promise<void> {
  const { api, daemons } = place.world;
  const labels = {
    "app.kubernetes.io/managed-by": "sandbox-mcp",
    "sandbox-mcp.io/part": "pool",
  };
  const deletionTimestamp = new Date().toISOString();
  // No daemon is started for it.
  daemons.isHolding = true;
  const made = await fetch(`${api.url}/api/v1/namespaces/test/pods`, {
    method: "POST",
    body: JSON.stringify({ metadata: { name, labels, deletionTimestamp, ...more } }),
  });
  daemons.isHolding = false;
  expect(made.status).toBe(201);
}

test("a Pod in the place of one that its node did not end stays", { timeout: LONG }, async () => {
  const { api } = place.world;
  const path = "pods/stuck";
  const { promise: replaced, resolve } = Promise.withResolvers<void>();
  api.before(`DELETE ${path}`, async () => {
    api.change(path, ({ metadata }) => {
      metadata.uid = "of a later run";
      delete metadata.deletionTimestamp;
    });
    resolve();
  });
  await postDeleted("stuck");
  await replaced;
  // That call is answered before this one.
  const found = await fetch(`${api.url}/api/v1/namespaces/test/${path}`);
  expect(found.status).toBe(200);
  api.remove(path);
});

test("a Pod that a finalizer holds is removed by force once", { timeout: LONG }, async () => {
  const { api } = place.world;
  const countOf = (name: string) =>
    api.calls.filter((call) => call === `DELETE pods/${name}`).length;
  for (const name of ["held", "second", "third"]) {
    await postDeleted(name, { finalizers: ["example.org/held"] });
    await expect.poll(() => countOf(name), SETTLED).toBe(1);
  }
  expect(countOf("held")).toBe(1);
  for (const name of ["held", "second", "third"]) api.remove(`pods/${name}`);
});

test("the image of a pause that is seen late stays", { timeout: LONG }, async () => {
  const id = await create();
  delay("configmaps", RECORDS);
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  // Those of other tests may still be there.
  const isImage = (path: string) =>
    path.startsWith("configmaps/snapshot-") &&
    JSON.stringify(place.world.api.objects.get(path)).includes(id);
  const image = [...place.world.api.objects.keys()].find((path) => isImage(path)) ?? "none";
  // A list of all records, and not one for another image alone.
  for (let lists = 1; lists <= 3; lists += 1) {
    expect(await nextOf("GET configmaps", `PATCH ${image}`)).toBe("GET configmaps");
  }
  expect(has(image)).toBe(true);
  expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(201);
});

test("a snapshot whose sandbox is seen late is not removed", { timeout: LONG }, async () => {
  const id = await create();
  const named = await send(`POST /sandboxes/${id}/snapshots`, { name: "late" });
  expect(named.status).toBe(201);
  const removal = { method: "DELETE", path: "/templates/late" };
  delay("configmaps", RECORDS);
  const { status, body } = await send("POST /sandboxes", { templateID: "late", timeout: 300 });
  expect(status).toBe(201);
  expect((await callFront(place.url, removal)).status).toBe(400);
  late?.[Symbol.dispose]();
  // It is ready as before.
  const again = await send("POST /sandboxes", { templateID: "late", timeout: 300 });
  expect(again.status).toBe(201);
  for (const one of [body, again.body]) await send(`DELETE /sandboxes/${one.sandboxID}`);
  expect((await send("DELETE /templates/late")).status).toBe(204);
});

test("a snapshot that is seen to be made for ever stays", { timeout: LONG }, async () => {
  const id = await create();
  const { api } = place.world;
  using pushed = atStep("image.pushed", async () => delay("configmaps", SNAPSHOTS));
  expect((await send(`POST /sandboxes/${id}/snapshots`, {})).status).toBe(201);
  const [path = "", record] =
    [...api.objects].findLast(([name]) => name.startsWith("configmaps/snapshot-")) ?? [];
  const stateOf = () => JSON.parse(Object(record).data.snapshot).state;
  expect([pushed.wasReached, stateOf()]).toEqual([true, "ready"]);
  const from = api.calls.length;
  const reads = () => api.calls.slice(from).filter((call) => call === `GET ${path}`).length;
  // Twenty minutes of it, and two looks.
  await expect.poll(reads, { timeout: 40_000, interval: 100 }).toBeGreaterThan(1);
  expect([has(path), stateOf()]).toEqual([true, "ready"]);
});
