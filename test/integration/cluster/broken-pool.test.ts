/** The pool where Pods do not start or end at once, and where many creates come at once. */

import { userInfo } from "node:os";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { sendFront, startPodWorld } from "../../support/cluster/pod-front.ts";

/** Each pooled Pod has a process of its own, whose start takes seconds on a busy machine. */
const LIMIT_MS = 120_000;
const SETTLED = { timeout: LIMIT_MS, interval: 50 };

vi.setConfig({ testTimeout: LIMIT_MS });

const state = { waiting: { reason: "ImagePullBackOff", message: "not there" } };
const STUCK = { phase: "Pending", containerStatuses: [{ name: "sandbox", state }] };

test.for([
  { name: "whose image is not there", status: STUCK, left: 4 },
  { name: "whose Pods end at once", status: { phase: "Failed" }, left: 0 },
])("a template $name takes the place of no other in the pool", async ({ status, left }) => {
  await using world = await startPodWorld();
  const { api, daemons } = world;
  daemons.isHolding = true;
  const imageOf = (path: string) => Object(api.objects.get(path)?.["spec"]).containers[0].image;
  const count = (image: string) =>
    [...api.objects.keys()].filter((path) => path.startsWith("pods/") && imageOf(path) === image)
      .length;
  api.onChange((type, plural, { metadata: { name } }) => {
    if (plural !== "pods" || type !== "ADDED" || imageOf(`pods/${name}`) !== "broken:1") return;
    queueMicrotask(() => api.change(`pods/${name}`, (pod) => void (pod["status"] = status)));
  });
  const { username: user } = userInfo();
  await world.start({
    images: [
      { name: "broken", image: "broken:1", user },
      { name: "base", image: "image:1", user },
    ],
    pool: [
      { template: "broken", size: 8 },
      { template: "base", size: 2 },
    ],
  });
  await expect.poll(() => count("image:1"), SETTLED).toBe(2);
  await expect.poll(() => count("broken:1"), SETTLED).toBe(left);
});

test("a Pod that does not start on its node keeps no other Pod of its template from the pool", async () => {
  await using world = await startPodWorld();
  const { api, daemons } = world;
  daemons.isHolding = true;
  const podsOf = () => [...api.objects.keys()].filter((path) => path.startsWith("pods/"));
  api.onChange((type, plural, { metadata: { name } }) => {
    if (plural !== "pods" || type !== "ADDED") return;
    const status = podsOf().length === 1 ? STUCK : { phase: "Running", podIP: "127.0.0.1" };
    queueMicrotask(() => api.change(`pods/${name}`, (pod) => void (pod["status"] = status)));
  });
  await world.start({ pool: [{ template: "base", size: 6 }] });
  await expect.poll(() => podsOf().length, SETTLED).toBe(6);
});

/** As many are refused as may start at once. */
const REFUSED = ["one", "two", "three", "four"].map((name) => ({ name, image: `broken:${name}` }));
const IMAGES = [...REFUSED, { name: "base", image: "image:1" }].map((image) => ({
  ...image,
  user: userInfo().username,
}));

test("templates whose Pods are refused keep no other out of the pool", async () => {
  await using world = await startPodWorld();
  const { api } = world;
  const refusal = { status: 400, reason: "BadRequest", message: "denied by a webhook" };
  api.refuse("POST pods", refusal, (body) => JSON.stringify(body).includes('"broken:'));
  await world.start({
    images: IMAGES,
    pool: IMAGES.map(({ name }) => ({ template: name, size: 1 })),
  });
  const count = () => [...api.objects.keys()].filter((path) => path.startsWith("pods/")).length;
  await expect.poll(count, SETTLED).toBe(1);
});

test("what the leading front is not allowed to do is in its log, not each time", async () => {
  await using world = await startPodWorld();
  const lines: unknown[] = [];
  const log = pino({ level: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });
  const refusal = { status: 403, reason: "Forbidden", message: "no right" };
  world.api.refuse("POST pods", refusal);
  await world.start({ log, pool: [{ template: "base", size: 1 }], graceShare: 0.1 });
  const find = () => lines.filter((line) => Object(line).subject === "pool");
  await expect.poll(find, SETTLED).toMatchObject([{ level: 40, op: "cluster.duties" }]);
  // Some looks later.
  const { length } = world.api.calls;
  await expect.poll(() => world.api.calls.length, SETTLED).toBeGreaterThan(length + 2);
  expect(find()).toHaveLength(1);
});

test("of many creates at once each takes a pooled Pod while there are some", async () => {
  await using world = await startPodWorld();
  const { api } = world;
  const size = 12;
  const pool = [{ template: "base", size }];
  const { url } = await world.start({ pool, maxSandboxes: 100 });
  const warm = () =>
    [...api.objects.values()].flatMap(({ kind, metadata, status }) => {
      const isPooled = kind === "Pod" && metadata.labels?.["sandbox-mcp.io/part"] === "pool";
      return isPooled && Object(status).phase === "Running" ? [metadata.name] : [];
    });
  await expect.poll(() => warm().length, SETTLED).toBe(size);
  const names = warm();
  const made = await Promise.all(
    names.map(async () => (await sendFront(url, "POST /sandboxes", { templateID: "base" })).body),
  );
  expect(new Set(made.map(({ sandboxID }) => sandboxID))).toEqual(new Set(names));
});

test("pooled Pods that are gone without an event are replaced after creates that met them", async () => {
  await using world = await startPodWorld();
  const { api } = world;
  const pooled = () =>
    [...api.objects].flatMap(([path, { metadata }]) =>
      metadata.labels?.["sandbox-mcp.io/part"] === "pool" ? [path] : [],
    );
  const { url } = await world.start({ pool: [{ template: "base", size: 2 }] });
  await expect.poll(() => pooled().length, SETTLED).toBe(2);
  // As after the state of a cluster was restored from a backup: no watch tells of them.
  const lost = pooled();
  for (const path of lost) api.lose(path);
  const reply = await sendFront(url, "POST /v2/sandboxes", { templateID: "base" });
  expect(reply.status).toBe(201);
  await expect.poll(() => pooled().length, SETTLED).toBe(2);
  expect(pooled().filter((path) => lost.includes(path))).toEqual([]);
});
