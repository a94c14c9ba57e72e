/** Logs and metrics of sandboxes that are Pods: asked of their daemons, through any front. */

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  POD_KEY,
  startPodWorld,
  type PodFront,
  type PodWorld,
} from "../../support/cluster/pod-front.ts";

let world: PodWorld;
let one: PodFront;
let two: PodFront;

beforeAll(async () => {
  world = await startPodWorld();
  one = await world.start();
  two = await world.start();
});
afterAll(async () => world[Symbol.asyncDispose]());

async function get(front: PodFront, path: string) {
  const reply = await fetch(front.url + path, { headers: { "x-api-key": POD_KEY } });
  const body: unknown = await reply.json();
  return { status: reply.status, body: Object(body) };
}

async function create({ url }: PodFront): Promise<string> {
  const reply = await fetch(`${url}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base", timeout: 300 }),
  });
  const body: unknown = await reply.json();
  return String(Object(body).sandboxID);
}

const messagesOf = ({ body }: { body: { logs: { message: string }[] } }) =>
  body.logs.map(({ message }) => message);

test("both fronts read the log, from its start, filtered and bounded", async () => {
  const sandboxID = await create(one);
  const path = `/v2/sandboxes/${sandboxID}/logs`;
  const files = { "E2b-Sandbox-Id": sandboxID, "E2b-Sandbox-Port": "49983" };
  await fetch(`${one.url}/files?path=/missing`, { headers: files });
  const forward = await Promise.all(
    [one, two, one, two].map((front) => get(front, `${path}?direction=forward`)),
  );
  for (const reply of forward) {
    expect([reply.status, messagesOf(reply)[0]]).toEqual([200, "Sandbox created"]);
    expect(messagesOf(reply).length).toBeGreaterThan(1);
  }
  const backward = messagesOf(await get(two, path));
  expect(backward.at(-1)).toBe("Sandbox created");
  expect(messagesOf(await get(two, `${path}?limit=1`))).toEqual(backward.slice(0, 1));
  expect(messagesOf(await get(two, `${path}?search=created`))).toEqual(["Sandbox created"]);
  const first = await get(two, `/sandboxes/${sandboxID}/logs?limit=1`);
  expect(first.body.logEntries).toMatchObject([
    { message: "Sandbox created", fields: { sandboxID, service: "sandbox-mcp" } },
  ]);
});

test("a daemon that started anew is asked as well", async () => {
  const sandboxID = await create(one);
  await world.daemons.restart(sandboxID);
  expect(messagesOf(await get(two, `/v2/sandboxes/${sandboxID}/logs`))).toContain(
    "Sandbox created",
  );
  // A start on a busy machine may take longer than one question waits.
  const metrics = async () => (await get(two, `/sandboxes/${sandboxID}/metrics`)).body;
  await expect.poll(metrics, { timeout: 30_000 }).toHaveLength(1);
});

test("metrics are a sample of this moment, for a range that includes it", async () => {
  const sandboxID = await create(one);
  const path = `/sandboxes/${sandboxID}/metrics`;
  const { status, body } = await get(two, path);
  expect([status, body]).toEqual([
    200,
    [
      expect.objectContaining({
        cpuCount: expect.any(Number),
        cpuUsedPct: expect.any(Number),
        memUsed: expect.any(Number),
        memTotal: expect.any(Number),
        diskUsed: expect.any(Number),
      }),
    ],
  ]);
  const [sample] = body;
  expect(Math.abs(Date.parse(sample.timestamp) - Date.now())).toBeLessThan(10_000);
  expect(sample.cpuUsedPct).toBeLessThanOrEqual(100);
  expect(sample.memUsed).toBeGreaterThan(0);
  const seconds = Math.floor(Date.now() / 1_000);
  expect((await get(one, `${path}?end=${seconds - 60}`)).body).toEqual([]);
  expect((await get(one, `${path}?start=${seconds + 60}`)).body).toEqual([]);
  expect((await get(one, `${path}?end=${seconds - 60}&fresh=true`)).body).toHaveLength(1);
});

test("of several, those whose Pod answers are told", async () => {
  const [left, right] = [await create(one), await create(two)];
  const ids = [left, right];
  const path = `/sandboxes/metrics?sandbox_ids=${ids.join()}`;
  await expect
    .poll(async () => Object.keys((await get(one, path)).body.sandboxes).toSorted())
    .toEqual(ids.toSorted());
  world.api.change(`pods/${left}`, (pod) => {
    pod["status"] = { phase: "Running", podIP: "127.255.255.254" };
  });
  await expect
    .poll(async () => Object.keys((await get(one, path)).body.sandboxes))
    .toEqual([right]);
  expect((await get(one, `/sandboxes/${left}/metrics`)).status).toBe(503);
});

test.for(["logs", "metrics"])("%s of no sandbox, and of one that ended, are 404", async (what) => {
  const sandboxID = await create(one);
  await fetch(`${two.url}/sandboxes/${sandboxID}`, {
    method: "DELETE",
    headers: { "x-api-key": POD_KEY },
  });
  for (const id of [sandboxID, "iaaaaaaaaaaaaaaaaaaaa"]) {
    expect((await get(one, `/sandboxes/${id}/${what}`)).status).toBe(404);
  }
});
