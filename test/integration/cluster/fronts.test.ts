/** Fronts of one cluster: what one does, the others see; what is not finished is finished. */

import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
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

async function call(front: PodFront, route: string, body?: object) {
  const [method = "", path = ""] = route.split(" ");
  const reply = await fetch(front.url + path, {
    method,
    headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  const parsed = text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined;
  return { status: reply.status, headers: reply.headers, body: parsed };
}

async function create(front: PodFront, body: object = {}): Promise<{ id: string; token: string }> {
  const { status, body: made } = await call(front, "POST /v2/sandboxes", {
    templateID: "base",
    timeout: 300,
    ...body,
  });
  expect([status, made]).toMatchObject([201, { sandboxID: expect.any(String) }]);
  return { id: made.sandboxID, token: made.envdAccessToken };
}

async function health(front: PodFront, { id, token }: { id: string; token: string }) {
  const headers = { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": "49983", "X-Access-Token": token };
  const reply = await fetch(`${front.url}/envs`, { headers });
  await reply.text();
  return reply.status;
}

test("a sandbox of one front is reached, described, extended and killed at the other, at once", async () => {
  const made = await create(one, { metadata: { a: "b" } });
  expect(await health(two, made)).toBe(200);
  const detail = await call(two, `GET /sandboxes/${made.id}`);
  expect(detail).toMatchObject({
    status: 200,
    body: {
      state: "running",
      metadata: { a: "b" },
      missingAbilities: ["pause", "snapshot", "fork", "volumes", "network rules"],
    },
  });
  expect(await call(two, `POST /sandboxes/${made.id}/timeout`, { timeout: 600 })).toMatchObject({
    status: 204,
  });
  expect(await call(two, `DELETE /sandboxes/${made.id}`)).toMatchObject({ status: 204 });
  expect(await call(one, `GET /sandboxes/${made.id}`)).toMatchObject({ status: 404 });
  expect(await call(one, `DELETE /sandboxes/${made.id}`)).toMatchObject({ status: 404 });
  expect(await health(one, made)).toBe(502);
  expect([...world.api.objects.keys()].filter((path) => path.includes(made.id))).toEqual([]);
});

test.for([
  { method: "POST", path: "/pause", body: {} },
  { method: "POST", path: "/snapshots", body: {} },
  { method: "POST", path: "/fork", body: { count: 1 } },
  { method: "POST", path: "/resume", body: {} },
  { method: "PUT", path: "/network", body: { denyOut: ["192.0.2.1"] } },
])("$method $path is refused by name", async ({ method, path, body }) => {
  const { id } = await create(one);
  const reply = await call(one, `${method} /sandboxes/${id}${path}`, body);
  expect([reply.status, reply.body.message]).toEqual([
    501,
    expect.stringMatching(/^the kubernetes engine cannot /),
  ]);
  await call(one, `DELETE /sandboxes/${id}`);
});

test.for([
  { autoPause: true },
  { allow_internet_access: false },
  { network: { denyOut: ["0.0.0.0/0"] } },
  { network: { allowOut: ["192.0.2.1"] } },
])("a create with %j is refused by name, and leaves nothing", async (wanted) => {
  const before = world.api.objects.size;
  const reply = await call(one, "POST /v2/sandboxes", { templateID: "base", ...wanted });
  expect(reply.status).toBe(501);
  expect(world.api.objects.size).toBe(before);
});

test("a sandbox that ends amid a call is missing, by its id", async () => {
  const { id } = await create(one);
  world.api.before(`PATCH configmaps/${id}`, async () => {
    world.api.remove(`pods/${id}`);
    world.api.remove(`configmaps/${id}`);
  });
  expect(await call(two, `POST /sandboxes/${id}/timeout`, { timeout: 600 })).toMatchObject({
    status: 404,
    body: { message: `Sandbox "${id}" doesn't exist or you don't have access to it` },
  });
});

test("a sandbox ends at its time, by whichever front", async () => {
  const made = await create(two, { timeout: 1 });
  await expect.poll(async () => (await call(one, `GET /sandboxes/${made.id}`)).status).toBe(404);
  await expect.poll(() => world.api.objects.has(`pods/${made.id}`)).toBe(false);
});

test("a sandbox whose Pod was deleted ends", async () => {
  const made = await create(one);
  world.api.remove(`pods/${made.id}`);
  expect(await health(two, made)).toBe(502);
  await expect
    .poll(() => world.api.objects.has(`configmaps/${made.id}`), { timeout: 25_000 })
    .toBe(false);
});

test("a daemon that started anew is told its sandbox again", async () => {
  const made = await create(one);
  await world.daemons.restart(made.id);
  expect(await health(two, made)).toBe(200);
  expect(await health(one, { ...made, token: "wrong" })).toBe(401);
  await call(one, `DELETE /sandboxes/${made.id}`);
});

test("a quota answers 429, an absent feature 503; neither leaves anything", async () => {
  const before = world.api.objects.size;
  world.api.refuseNext("pods", {
    status: 403,
    reason: "Forbidden",
    message: 'pods "x" is forbidden: exceeded quota: sandboxes',
  });
  const refused = await call(one, "POST /v2/sandboxes", { templateID: "base" });
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "2"]);
  world.api.refuseNext("pods", { status: 500, reason: "", message: "planned" });
  const away = await call(one, "POST /v2/sandboxes", { templateID: "base" });
  expect([away.status, away.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(world.api.objects.size).toBe(before);
});

test.for([
  { status: 400, reason: "BadRequest", message: "denied by a webhook" },
  { status: 422, reason: "Invalid", message: "denied by a policy" },
])("a Pod that the cluster does not admit ($status) is a create that says why", async (refusal) => {
  world.api.refuseNext("pods", refusal);
  expect(await call(one, "POST /v2/sandboxes", { templateID: "base" })).toMatchObject({
    status: 503,
    body: { message: `Kubernetes API: ${refusal.status} ${refusal.message}` },
  });
});

test("what another front starts counts for the limit of sandboxes", async () => {
  await using place = await startPodWorld();
  const first = await place.start({ maxSandboxes: 1 });
  const second = await place.start({ maxSandboxes: 1 });
  place.daemons.isHolding = true;
  const gone = new AbortController();
  const starting = fetch(`${first.url}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": POD_KEY, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base" }),
    signal: gone.signal,
  });
  const find = () => [...place.api.objects.keys()].find((path) => path.startsWith("pods/i"));
  await expect.poll(find, { timeout: 10_000 }).toBeDefined();
  // Its record is read at the second front, whatever its watch has brought.
  const id = find()?.slice("pods/".length) ?? "";
  const look = `GET /sandboxes/${id}`;
  await call(second, look);
  place.daemons.isHolding = false;
  expect((await call(second, "POST /v2/sandboxes", { templateID: "base" })).status).toBe(429);
  gone.abort();
  await expect(starting).rejects.toMatchObject({ name: "AbortError" });
  const left = () => [...place.api.objects.keys()].filter((path) => path.includes(id));
  await expect.poll(left, { timeout: 10_000 }).toEqual([]);
  await call(second, look);
  await create(second);
});

test("while the API server is away, what runs is served and creates say 503", async () => {
  const made = await create(one);
  expect(await health(two, made)).toBe(200);
  world.api.fail(503);
  const refused = await call(two, "POST /v2/sandboxes", { templateID: "base" });
  const listed = await call(two, "GET /v2/sandboxes");
  const inside = await health(two, made);
  world.api.fail(undefined);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "2"]);
  expect([inside, listed.body.map(({ sandboxID }: { sandboxID: string }) => sandboxID)]).toEqual([
    200,
    [made.id],
  ]);
  await call(two, `DELETE /sandboxes/${made.id}`);
});

test("a front that starts while the API server knows no rights yet waits for them", async () => {
  await using late = await startPodWorld();
  late.api.fail(403);
  const starting = late.start();
  await expect.poll(() => late.api.calls.length).toBeGreaterThan(2);
  late.api.fail(undefined);
  expect((await call(await starting, "GET /v2/sandboxes")).status).toBe(200);
});

test("a front that is stopped while it waits for a right ends, and leaves no Lease", async () => {
  await using late = await startPodWorld();
  late.api.refuse("GET configmaps", { status: 403, reason: "Forbidden", message: "no right" });
  const stop = new AbortController();
  const starting = late.start({ signal: stop.signal });
  await expect.poll(() => late.api.calls).toContain("GET configmaps");
  stop.abort();
  await expect(starting).rejects.toMatchObject({ code: "canceled" });
  expect([...late.api.objects.keys()].filter((path) => path.startsWith("leases/"))).toEqual([]);
});

test("pooled Pods are claimed, each once, and replaced", async () => {
  await using pooled = await startPodWorld();
  const [left, right] = [
    await pooled.start({ pool: [{ template: "base", size: 2 }] }),
    await pooled.start({ pool: [{ template: "base", size: 2 }] }),
  ];
  const warm = () =>
    [...pooled.api.objects.values()].filter(
      ({ kind, metadata, ...rest }) =>
        kind === "Pod" &&
        metadata.labels?.["sandbox-mcp.io/part"] === "pool" &&
        rest["status"] !== undefined,
    );
  await expect.poll(() => warm().length).toBe(2);
  const names = warm().map(({ metadata: { name } }) => name);
  const made = await Promise.all([create(left), create(right)]);
  expect(made.map(({ id }) => id).toSorted()).toEqual(names.toSorted());
  expect(await health(right, made[0] ?? { id: "", token: "" })).toBe(200);
  await expect.poll(() => warm().length).toBe(2);
});

test("a pooled Pod whose removal is seen late is told nothing of a sandbox", async () => {
  await using pooled = await startPodWorld();
  const front = await pooled.start({ pool: [{ template: "base", size: 1 }] });
  const findPooled = () =>
    [...pooled.api.objects].find(
      ([path, { status }]) => path.startsWith("pods/") && Object(status).phase === "Running",
    )?.[0];
  await expect.poll(findPooled).toBeDefined();
  const path = findPooled() ?? "none";
  // The front has seen what came before this call.
  await call(front, "DELETE /sandboxes/none");
  const late = pooled.api.delayWatch("pods", "app.kubernetes.io/managed-by=sandbox-mcp");
  pooled.api.change(path, ({ metadata }) => {
    metadata.deletionTimestamp = new Date().toISOString();
  });
  // It has chosen the Pod by now.
  pooled.api.before(`PATCH ${path}`, async () => late[Symbol.dispose]());
  const { status, body } = await call(front, "POST /v2/sandboxes", { templateID: "base" });
  expect(status).toBe(201);
  expect(pooled.api.calls).toContain(`PATCH ${path}`);
  expect(`pods/${body.sandboxID}`).not.toBe(path);
});

test.for(["/isolation", "/init"])(
  "a Pod whose daemon refuses %s is a start that failed, and is not left",
  async (path) => {
    const before = [...world.api.objects.keys()].filter((name) => !name.startsWith("leases/"));
    world.daemons.refusedPath = path;
    const { status, body } = await call(one, "POST /v2/sandboxes", { templateID: "base" });
    world.daemons.refusedPath = undefined;
    expect([status, body]).toMatchObject([503, { error_code: "sandbox_create_failed" }]);
    const left = () => [...world.api.objects.keys()].filter((name) => !name.startsWith("leases/"));
    await expect.poll(left).toEqual(before);
  },
);

test("a front that ends leaves no directory of its own in its home", async () => {
  const front = await world.start();
  const instances = join(front.home, "instances");
  expect(await readdir(instances)).toHaveLength(1);
  await front[Symbol.asyncDispose]();
  expect(await readdir(instances)).toEqual([]);
});

test("a front removes what killed ones left in its home, and nothing of others", async () => {
  const home = `${one.home}-killed`;
  const make = async (instance: string, ...names: string[]) => {
    await mkdir(join(home, "instances", instance), { recursive: true });
    for (const name of names) await writeFile(join(home, "instances", instance, name), "");
  };
  await make("00000001", "door.sock");
  await make("00000002", "door.sock", "door.sock.new");
  await make("00000003", "door.sock", "keep");
  await make("00000004");
  await make("serve", "door.sock");
  const front = await world.start({}, home);
  const killed = await readdir(join(home, "instances"));
  await front[Symbol.asyncDispose]();
  const left = await readdir(join(home, "instances"));
  expect(left.toSorted()).toEqual(["00000003", "00000004", "serve"]);
  expect(killed).toHaveLength(left.length + 1);
});
