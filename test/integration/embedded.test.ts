/** Instances: several of one home, what each leaves, and what happens to the leavings. */

import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CleanUpFailure } from "../../src/common/clean-up.ts";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { tryLock } from "../../src/engine/host/lock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { isAlive } from "../../src/sandboxes/reclaim/instance-folder.ts";
import { reclaim } from "../../src/sandboxes/reclaim/reclaim.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { createBareEngine } from "../support/engine/bare-engine.ts";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { startEchoServer } from "../support/network/echo.ts";
import { PERL_DIRECTORY } from "../support/perl-directory.ts";
import { startTestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("an instance leaves nothing but database and seed", async () => {
  await using home = await makeTempFolder();
  {
    await using service = await startTestService({ home: home.path });
    const created = await Promise.all([service.create(), service.create()]);
    expect(created).toHaveLength(2);
    const folder = join(home.path, "instances", service.embedded.instance);
    const modes = await Promise.all(
      ["", "door.sock", "life.sock", "token"].map(
        async (name) => (await stat(join(folder, name))).mode & 0o777,
      ),
    );
    expect(modes).toEqual([0o700, 0o600, 0o600, 0o600]);
    expect(await readFile(join(folder, "token"), "utf8")).toBe(service.embedded.apiKey);
  }
  expect(await readdir(join(home.path, "instances"))).toEqual([]);
  using store = openStore({ path: join(home.path, "state.db") });
  expect(store.sandboxes.owners()).toEqual([]);
});

test("two instances of a home do not see each other's sandboxes, but the same templates", async () => {
  await using home = await makeTempFolder();
  await using first = await startTestService({ home: home.path });
  await using second = await startTestService({ home: home.path });
  const created = await first.create();
  const path = `/sandboxes/${created.sandboxID}`;
  expect((await first.call({ path })).status).toBe(200);
  expect((await second.call({ path })).status).toBe(404);
  const other = await second.create();
  expect(other.templateID).toBe(created.templateID);
  expect(other.envdAccessToken).not.toBe(created.envdAccessToken);
});

test("a named instance runs once", async () => {
  await using home = await makeTempFolder();
  await using service = await startTestService({ home: home.path, instance: "serve" });
  await expect(startTestService({ home: home.path, instance: "serve" })).rejects.toMatchObject({
    code: "failed_precondition",
  });
  expect((await service.call({ path: "/sandboxes" })).status).toBe(200);
});

test("a named instance starts once the one that stops has ended", async () => {
  await using home = await makeTempFolder();
  const engine = createHeldEngine();
  const options = { home: home.path, instance: "serve" };
  await using first = await startTestService({
    ...options,
    engine: engine.engine,
    graceMs: 20_000,
  });
  const { sandboxID } = await first.create();
  using held = engine.hold("pause");
  const pause = first.call({ method: "POST", path: `/sandboxes/${sandboxID}/pause` });
  await held.reached;
  const order: string[] = [];
  const ending = first.embedded[Symbol.asyncDispose]().then(() => order.push("ended"));
  await expect.poll(() => isAlive(home.path, "serve")).toBe(false);
  expect(await tryLock(home.path, "service")).toBeUndefined();
  const starting = startTestService(options).finally(() => order.push("started"));
  held[Symbol.dispose]();
  expect((await pause).status).toBe(204);
  await using second = await starting;
  await ending;
  expect(order).toEqual(["ended", "started"]);
  expect((await second.call({ path: "/sandboxes" })).status).toBe(200);
});

test("what an instance without a name has is its own until it has ended", async () => {
  await using home = await makeTempFolder();
  const engine = createHeldEngine();
  await using first = await startTestService({ home: home.path, engine: engine.engine });
  const { instance } = first.embedded;
  await first.create();
  using held = engine.hold("end");
  const ending = first.embedded[Symbol.asyncDispose]();
  await held.reached;
  expect(await isAlive(home.path, instance)).toBe(false);
  using store = openStore({ path: join(home.path, "state.db") });
  const { engine: other } = createHeldEngine();
  const options = { engine: other, store, home: home.path, self: undefined, takesKept: true };
  const failures: CleanUpFailure[] = [];
  const onFailure = (failure: CleanUpFailure) => failures.push(failure);
  expect([await reclaim({ ...options, onFailure }), failures]).toEqual([[], []]);
  held[Symbol.dispose]();
  await ending;
  expect(await readdir(join(home.path, "instances"))).toEqual([]);
});

test("a start that waits for one that stops says so, and its signal ends the wait", async () => {
  await using home = await makeTempFolder();
  await using lock = await tryLock(home.path, "service");
  expect(lock).toBeDefined();
  const stop = new AbortController();
  const told: string[] = [];
  const info = (_fields: unknown, text: string) => {
    told.push(text);
    stop.abort();
  };
  const log = Object.assign(createSilentLog(), { info });
  const options = { home: home.path, instance: "serve", log, signal: stop.signal };
  await expect(startTestService(options)).rejects.toMatchObject({ code: "canceled" });
  expect(told).toEqual(["waiting for an earlier process that stops"]);
});

test("what a dead instance left is removed, what a living one has is not", async () => {
  await using home = await makeTempFolder();
  await using living = await startTestService({ home: home.path });
  await living.create();
  const inside = { dead: "s/iabc", kept: "s/iabc", left: "s", young: "", ahead: "" };
  for (const [name, path] of Object.entries(inside)) {
    const folder = join(home.path, "instances", name);
    await mkdir(join(folder, path), { recursive: true });
    if (name === "kept") await writeFile(join(folder, "keep"), "");
  }
  // Killed before it had a control socket.
  await mkdir(join(home.path, "instances", "0a1b2c3d"));
  await writeFile(join(home.path, "instances", "0a1b2c3d", "life.sock"), "");
  // As of a clock that was ahead.
  const future = new Date(Date.now() + 365 * 86_400_000);
  await utimes(join(home.path, "instances", "ahead"), future, future);
  const engine = createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY });
  const options = {
    engine,
    store: living.embedded.store,
    home: home.path,
    self: undefined,
    takesKept: false,
    onFailure: ({ error }: CleanUpFailure) => {
      throw error;
    },
  };
  expect(await reclaim(options)).toEqual([
    { kind: "instance", name: "0a1b2c3d" },
    { kind: "instance", name: "ahead" },
    { kind: "sandbox", name: "iabc" },
    { kind: "instance", name: "dead" },
    { kind: "instance", name: "left" },
  ]);
  {
    // As one that stops holds it.
    await using lock = await tryLock(home.path, "service");
    expect(lock).toBeDefined();
    expect(await reclaim({ ...options, takesKept: true })).toEqual([]);
  }
  expect(await reclaim({ ...options, takesKept: true })).toEqual([
    { kind: "sandbox", name: "iabc" },
    { kind: "instance", name: "kept" },
  ]);
  const left = await readdir(join(home.path, "instances"));
  expect(left.toSorted()).toEqual([living.embedded.instance, "young"].toSorted());
});

test.for([
  { left: "that runs", deadline: "end", isOver: false },
  { left: "whose time to live is over", deadline: "end", isOver: true },
  { left: "that will be paused", deadline: "freeze", isOver: false },
  { left: "that is paused", deadline: "freeze", isOver: true },
])(
  "a start removes a sandbox $left of an instance without a name: $isOver",
  async ({ deadline, isOver }) => {
    await using home = await makeTempFolder();
    using store = openStore({ path: join(home.path, "state.db") });
    const folder = join(home.path, "instances", "0a1b2c3d");
    await mkdir(join(folder, "s/iabc"), { recursive: true });
    await writeFile(join(folder, "keep"), "");
    const atS = Math.floor(Date.now() / 1_000) + (isOver ? -1 : 600);
    await writeFile(join(folder, "s/iabc/expiry"), `${atS} ${deadline}\n`);
    const removed = await reclaim({
      engine: {
        ...createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY }),
        remove: async (_id, directory) => rm(directory, { recursive: true }),
      },
      store,
      home: home.path,
      self: undefined,
      takesKept: false,
      onFailure: ({ error }: CleanUpFailure) => {
        throw error;
      },
    });
    const all = [
      { kind: "sandbox", name: "iabc" },
      { kind: "instance", name: "0a1b2c3d" },
    ];
    expect(removed).toEqual(isOver ? all : []);
  },
);

test("keys count from the moment they are made until they are revoked", async () => {
  await using service = await startTestService();
  const { store } = service.embedded;
  const { key, record } = createKey(store, createSystemClock(), { name: "ci" });
  expect(key).toMatch(/^e2b_[0-9a-f]{40}$/);
  const call = () => service.call({ path: "/sandboxes", headers: { "x-api-key": key } });
  expect((await call()).status).toBe(200);
  expect(store.keys.remove(record.keyId)).toBe(true);
  expect((await call()).status).toBe(401);
});

test("a request that names another host is refused on every door", async () => {
  await using service = await startTestService({ tcp: [{ host: "127.0.0.1", port: 0 }] });
  const reply = await service.call({ path: "/sandboxes", headers: { host: "evil.example" } });
  expect({ status: reply.status, text: reply.text }).toEqual({ status: 400, text: "Invalid host" });
  const [port] = service.embedded.ports;
  const health = await fetch(`http://127.0.0.1:${port}/health`);
  expect(health.status).toBe(204);
  const headers = { "x-api-key": service.embedded.apiKey };
  const list = await fetch(`http://127.0.0.1:${port}/v2/sandboxes`, { headers });
  expect(await list.json()).toEqual([]);
});

test("an end waits for replies that are owed and for streams that still flow", async () => {
  const engine = createHeldEngine();
  await using echo = await startEchoServer();
  await using service = await startTestService({ engine: engine.engine, graceMs: 20_000 });
  const { sandboxID } = await service.create();
  const other = await service.create();
  using held = engine.hold("pause");
  const pause = service.call({ method: "POST", path: `/sandboxes/${sandboxID}/pause` });
  await held.reached;
  const flowing = service.enter({ ...other, port: echo.port }, { path: "/slow" });
  const silent = service.enter({ ...other, port: echo.port }, { path: "/drip" });
  const cut = Promise.allSettled([silent]);
  await expect.poll(() => echo.countConnections()).toBe(2);
  const end = service.embedded[Symbol.asyncDispose]();
  expect((await flowing).text).toBe("0123456789".repeat(2));
  held[Symbol.dispose]();
  expect((await pause).status).toBe(204);
  expect(await cut).toMatchObject([{ status: "rejected" }]);
  await end;
});

test("an end in the middle of a create leaves nothing", async () => {
  await using home = await makeTempFolder();
  const service = await startTestService({ home: home.path });
  const creating = Promise.allSettled([
    service.call({ method: "POST", path: "/v2/sandboxes", body: { templateID: "base" } }),
  ]);
  await expect.poll(() => service.embedded.store.sandboxes.owners()).toHaveLength(1);
  await service[Symbol.asyncDispose]();
  const [created] = await creating;
  expect(created.status === "rejected" || created.value.status !== 201).toBe(true);
  expect(await readdir(join(home.path, "instances"))).toEqual([]);
});
