/** Warm sandboxes: nobody's until a create takes one over, replaced when they are no use. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { request } from "undici";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { atStep } from "../support/at-step.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

interface HeardRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The daemon of a container on the `bare` engine works in the container's folder. */
async function findDaemon(folder: string): Promise<number | undefined> {
  for (const name of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(name)) continue;
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => undefined);
    if (cwd === folder) return Number(name);
  }
  return undefined;
}

async function isStopped(pid: number | undefined): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return /\) T /.test(stat);
}

function folderOf({ home, embedded }: TestService, sandboxId: string): string {
  return join(home, "instances", embedded.instance, "s", sandboxId);
}

function pooledIds({ embedded }: TestService): string[] {
  return embedded.store.sandboxes
    .ofOwner(embedded.instance)
    .filter(({ state }) => state === "pooled")
    .map(({ sandboxId }) => sandboxId)
    .toSorted();
}

/** The ids of the pool, once so many are frozen, without those that are known. */
async function awaitPool(service: TestService, size: number, known: readonly string[] = []) {
  const frozen = async () => {
    const ids = pooledIds(service).filter((id) => !known.includes(id));
    const states = await Promise.all(
      ids.map(async (id) => isStopped(await findDaemon(folderOf(service, id)))),
    );
    return ids.filter((_id, index) => states[index]);
  };
  await expect.poll(async () => (await frozen()).length, { timeout: 10_000 }).toBe(size);
  return frozen();
}

test("a create takes a warm sandbox over, and another one is started", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const [warm = ""] = await awaitPool(service, 1);
  const created = await service.create({ envVars: { NAME: "value" }, metadata: { a: "b" } });
  expect(created.sandboxID).toBe(warm);
  const open = await service.enter(created, { path: "/envs" });
  expect(open.status).toBe(401);
  const told = await service.enter(created, {
    path: "/envs",
    headers: { "x-access-token": created.envdAccessToken ?? "" },
  });
  expect(told.body).toMatchObject({ NAME: "value", E2B_SANDBOX_ID: warm });
  expect((await service.call({ path: `/sandboxes/${warm}` })).body).toMatchObject({
    sandboxID: warm,
    state: "running",
    metadata: { a: "b" },
  });
  const [next] = await awaitPool(service, 1, [warm]);
  expect(next).not.toBe(warm);
  // What it did while it was nobody's is not told.
  const logs = await service.call({ path: `/v2/sandboxes/${warm}/logs` });
  expect(JSON.stringify(logs.body)).toContain("Sandbox created");
  expect(JSON.stringify(logs.body)).not.toContain("Process");
});

test("what a create wants counts in a warm sandbox, even if the clock was set back", async () => {
  const clock = createSystemClock();
  let setBackMs = 0;
  const now = () => clock.now() - setBackMs;
  await using service = await startTestService({ poolSize: 1, clock: { ...clock, now } });
  const [warm] = await awaitPool(service, 1);
  setBackMs = 3_600_000;
  const created = await service.create({ envVars: { NAME: "value" } });
  expect(created.sandboxID).toBe(warm);
  const headers = { "x-access-token": created.envdAccessToken ?? "" };
  const told = await service.enter(created, { path: "/envs", headers });
  expect(told.body).toMatchObject({ NAME: "value" });
});

test("a warm sandbox becomes that of the team that takes it", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const [warm = ""] = await awaitPool(service, 1);
  const holder = { name: "x", team: "others" };
  const { key } = createKey(service.embedded.store, createSystemClock(), holder);
  const asOthers = { headers: { "x-api-key": key } };
  const body = { templateID: "base" };
  const created = await service.call({ ...asOthers, method: "POST", path: "/v2/sandboxes", body });
  expect(created.body).toMatchObject({ sandboxID: warm });
  const path = `/sandboxes/${warm}`;
  expect((await service.call({ ...asOthers, path })).status).toBe(200);
  expect((await service.call({ path })).status).toBe(404);
  expect((await service.call({ path: `${path}/logs` })).status).toBe(404);
});

test("a create whose client left while it took a warm one is no fault of the service", async () => {
  await using service = await startTestService({ poolSize: 1, hasMetrics: true });
  await awaitPool(service, 1);
  const left = Promise.withResolvers<unknown>();
  const listen = (message: unknown) => {
    // Node says this of every request that a server gets.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const { request: heard, response } = message as HeardRequest;
    if (heard.method === "POST") left.resolve(once(response, "close"));
  };
  subscribe("http.server.request.start", listen);
  const end = new AbortController();
  using _ = atStep("claim.thawed", async () => {
    end.abort();
    await left.promise;
  });
  const creating = request("http://localhost/v2/sandboxes", {
    dispatcher: service.dispatcher,
    method: "POST",
    headers: { "x-api-key": service.embedded.apiKey, "content-type": "application/json" },
    body: '{"templateID":"base"}',
    signal: end.signal,
  });
  await expect(creating).rejects.toThrow("aborted");
  unsubscribe("http.server.request.start", listen);
  const figures = async () => (await service.call({ path: "/metrics" })).text;
  await expect.poll(figures).toContain('path="/v2/sandboxes",status="499"} 1');
});

test("a warm sandbox is nobody's", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const [warm = ""] = await awaitPool(service, 1);
  const path = `/sandboxes/${warm}`;
  const replies = await Promise.all([
    service.call({ path }),
    service.call({ path: `${path}/logs` }),
    service.call({ path: `${path}/metrics` }),
    service.call({ method: "POST", path: `${path}/pause` }),
    service.call({ method: "POST", path: `/v2${path}/connect`, body: {} }),
    service.call({ method: "DELETE", path }),
    service.enter({ sandboxID: warm }, { path: "/health" }),
  ]);
  expect(replies.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404, 502]);
  expect((await service.call({ path: "/v2/sandboxes" })).body).toEqual([]);
  expect(pooledIds(service)).toEqual([warm]);
});

test("creates at once share no warm sandbox, and the pool counts for no limit", async () => {
  await using service = await startTestService({ poolSize: 2, maxSandboxes: 3 });
  const warm = await awaitPool(service, 2);
  const created = await Promise.all([1, 2, 3].map(() => service.create()));
  const ids = created.map(({ sandboxID }) => sandboxID);
  expect(new Set(ids).size).toBe(3);
  expect(ids).toEqual(expect.arrayContaining(warm));
});

test("a create that wants something else starts its own", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const warm = await awaitPool(service, 1);
  await service.call({ method: "POST", path: "/volumes", body: { name: "data" } });
  const created = await service.create({ volumeMounts: [{ name: "data", path: "/data" }] });
  expect(warm).not.toContain(created.sandboxID);
  expect(await awaitPool(service, 1)).toEqual(warm);
});

test("a warm sandbox that died is replaced", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const [warm = ""] = await awaitPool(service, 1);
  process.kill((await findDaemon(folderOf(service, warm))) ?? 0, "SIGKILL");
  const [next] = await awaitPool(service, 1, [warm]);
  const created = await service.create();
  expect(created.sandboxID).toBe(next);
  expect(await readdir(join(service.home, "instances", service.embedded.instance, "s"))).toContain(
    created.sandboxID,
  );
});

test("warm sandboxes of an older template give way", async () => {
  await using home = await makeTempFolder();
  let layers: readonly { readonly root: string }[] = [{ root: join(home.path, "layers/old/root") }];
  const builtIn = {
    name: "base",
    defaultUser: "root",
    defaultWorkdir: home.path,
    find: async () => layers,
  };
  await using service = await startTestService({
    home: home.path,
    poolSize: 1,
    builtIns: [builtIn],
  });
  const warm = await awaitPool(service, 1);
  layers = [{ root: join(home.path, "layers/new/root") }];
  const created = await service.create();
  expect(warm).not.toContain(created.sandboxID);
  const [next] = await awaitPool(service, 1, warm);
  expect((await service.create()).sandboxID).toBe(next);
  await expect.poll(() => service.embedded.store.sandboxes.get(warm[0] ?? "")).toBeUndefined();
});

test("the end of the service ends the pool, the next start removes what a crash left of it", async () => {
  await using home = await makeTempFolder();
  {
    await using service = await startTestService({
      home: home.path,
      poolSize: 2,
      onExit: "leave",
      instance: "kept",
    });
    await awaitPool(service, 2);
  }
  const folder = join(home.path, "instances/kept/s");
  expect(await readdir(folder).catch(() => [])).toEqual([]);
  let record;
  {
    await using service = await startTestService({ home: home.path, poolSize: 1 });
    const [warm = ""] = await awaitPool(service, 1);
    record = service.embedded.store.sandboxes.get(warm);
  }
  {
    using store = openStore({ path: join(home.path, "state.db") });
    expect(store.sandboxes.owners()).toEqual([]);
    if (record !== undefined) store.sandboxes.put({ ...record, owner: "kept" });
  }
  await using service = await startTestService({ home: home.path, instance: "kept" });
  expect(pooledIds(service)).toEqual([]);
  const logs = await service.call({ path: `/sandboxes/${record?.sandboxId}/logs` });
  expect(logs.status).toBe(404);
});

/** A template whose sandboxes are made of the same as those of `base`. */
function addEqual({ embedded: { store } }: TestService): string {
  const template = store.templates.getByName("base");
  const build = template && store.builds.tagged(template.templateId, "default");
  if (template === undefined || build === undefined) throw new Error("there is no base");
  const templateId = "equal0template";
  store.templates.put({ ...template, templateId, kind: "template", name: "local/equal" });
  store.builds.put({ ...build, templateId, buildId: "equal-build" });
  const tag = { templateId, tag: "default", buildId: "equal-build", createdAtMs: 0 };
  store.builds.tag(tag);
  return templateId;
}

test("a warm sandbox counts for the template that it is created from", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const templateId = addEqual(service);
  const [warm] = await awaitPool(service, 1);
  const { sandboxID } = await service.create({ templateID: "equal" });
  expect(sandboxID).toBe(warm);
  expect(service.embedded.store.sandboxes.countOfTemplate(templateId)).toBe(1);
  const removed = await service.call({ method: "DELETE", path: "/templates/equal" });
  expect(removed.status).toBe(400);
});

test("another team's own template of the same name ends no warm sandbox", async () => {
  await using service = await startTestService({ poolSize: 1 });
  const { store } = service.embedded;
  const templateId = addEqual(service);
  const equal = store.templates.get(templateId);
  if (equal === undefined) throw new Error("there is no template");
  store.templates.put({ ...equal, name: "others/base", team: "others", isPublic: false });
  const warm = await awaitPool(service, 1);
  const { key } = createKey(store, createSystemClock(), { name: "x", team: "others" });
  // It asks for more than a warm one is, which is then still there.
  const body = { templateID: "base", allow_internet_access: false };
  const headers = { "x-api-key": key };
  const created = await service.call({ headers, method: "POST", path: "/v2/sandboxes", body });
  expect(created.status).toBe(201);
  expect(store.sandboxes.countOfTemplate(templateId)).toBe(1);
  expect((await service.create()).sandboxID).toBe(warm[0]);
});

/** A service with a pool of a template that can be removed, in the home of another one. */
function startEqual({ home }: TestService): Promise<TestService> {
  return startTestService({ home, poolSize: 0, poolShares: [{ template: "equal", size: 2 }] });
}

const REMOVE_EQUAL = { method: "DELETE", path: "/templates/equal" } as const;

test("warm sandboxes keep no template from its removal", async () => {
  await using first = await startTestService({ poolSize: 0 });
  addEqual(first);
  await using service = await startEqual(first);
  const warm = await awaitPool(service, 2);
  expect((await service.call(REMOVE_EQUAL)).status).toBe(204);
  expect(pooledIds(service).filter((id) => warm.includes(id))).toEqual([]);
});

test("a warm sandbox that is being started keeps no template from its removal", async () => {
  await using first = await startTestService({ poolSize: 0 });
  addEqual(first);
  await using service = await startEqual(first);
  await awaitPool(service, 2);
  const removal = Promise.withResolvers<void>();
  using frozen = atStep("pool.frozen", async () => {
    removal.resolve(service.embedded.sandboxes.templates.remove("equal"));
  });
  // It takes a warm one, in whose place another one is started.
  await service.create();
  await removal.promise;
  expect([frozen.wasReached, pooledIds(service)]).toEqual([true, []]);
});

test("warm sandboxes stay where a client has a sandbox of the template", async () => {
  await using first = await startTestService({ poolSize: 0 });
  addEqual(first);
  await using service = await startEqual(first);
  await awaitPool(service, 2);
  await service.create({ templateID: "equal" });
  const warm = await awaitPool(service, 2);
  expect((await service.call(REMOVE_EQUAL)).status).toBe(400);
  expect(pooledIds(service)).toEqual(warm);
});

test("a template that is removed while a warm sandbox is taken over has none", async () => {
  await using service = await startTestService({ poolSize: 1 });
  addEqual(service);
  const [warm = ""] = await awaitPool(service, 1);
  using taken = atStep("claim.thawed", () => service.embedded.sandboxes.templates.remove("equal"));
  const body = { templateID: "equal" };
  const reply = await service.call({ method: "POST", path: "/v2/sandboxes", body });
  expect([taken.wasReached, reply.status]).toEqual([true, 404]);
  expect(service.embedded.store.sandboxes.get(warm)).toBe(undefined);
});
