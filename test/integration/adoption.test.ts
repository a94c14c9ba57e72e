/** Sandboxes that an earlier process of the service left running, at the start of the next one. */

import { uptime } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { SandboxError } from "../../src/common/errors.ts";
import { z } from "../../src/common/schema.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { openStore } from "../../src/store/sqlite.ts";
import type { SandboxRecord } from "../../src/store/store.ts";
import { atStep } from "../support/at-step.ts";
import { createLastingEngine } from "../support/engine/lasting-engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const LIFE_MS = 60_000;
const RETRY_MS = 1_000;

/** Two sandboxes, and then no service. */
async function leaveTwo(body: object = {}) {
  await using stack = new AsyncDisposableStack();
  const home = stack.use(await makeTempFolder());
  const lasting = stack.use(createLastingEngine(createLayerEngine()));
  const clock = createFakeClock();
  const { engine } = lasting;
  const start = (onExit: "kill" | "leave" = "leave") =>
    startTestService({ home: home.path, instance: "one", onExit, engine, clock });
  const ids: string[] = [];
  {
    await using first = await start();
    for (let count = 0; count < 2; count += 1) {
      ids.push((await first.create({ timeout: LIFE_MS / 1_000, ...body })).sandboxID);
    }
  }
  const [failing = "", other = ""] = ids;
  const owned = stack.move();
  return {
    lasting,
    clock,
    failing,
    other,
    start,
    record: (): SandboxRecord | undefined => {
      using store = openStore({ path: join(home.path, "state.db") });
      return store.sandboxes.get(failing);
    },
    change(changes: Partial<SandboxRecord>): void {
      using store = openStore({ path: join(home.path, "state.db") });
      const record = store.sandboxes.get(failing);
      if (record !== undefined) store.sandboxes.put({ ...record, ...changes });
    },
    restore(record: SandboxRecord | undefined): void {
      using store = openStore({ path: join(home.path, "state.db") });
      if (record !== undefined) store.sandboxes.put(record);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("one that cannot be adopted keeps no other from it, and is adopted later as it was", async () => {
  await using scene = await leaveTwo();
  const before = scene.record();
  scene.lasting.failAdoption(scene.failing);
  await using service = await scene.start();
  const look = async (id: string) => (await service.call({ path: `/sandboxes/${id}` })).status;
  expect([await look(scene.failing), await look(scene.other)]).toEqual([503, 200]);
  await scene.clock.advance(RETRY_MS);
  await expect.poll(() => look(scene.failing)).toBe(200);
  expect(scene.record()).toEqual(before);
  await scene.clock.advance(LIFE_MS);
  await expect.poll(() => look(scene.failing)).toBe(404);
});

test("one that a fault of the service keeps from adoption does not tell the fault", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failAdoption(scene.failing, new SandboxError("internal", "row 7 has no host"));
  await using service = await scene.start();
  const reply = await service.call({ path: `/sandboxes/${scene.failing}` });
  expect([reply.status, reply.body]).toMatchObject([
    503,
    {
      message: `sandbox ${scene.failing} was left by an earlier start of the service and is not adopted yet (the service tries again at least once a minute)`,
    },
  ]);
});

test.for([
  { method: "GET", path: "", body: undefined },
  { method: "POST", path: "/pause", body: {} },
  { method: "POST", path: "/connect", body: { timeout: 60 } },
  { method: "POST", path: "/resume", body: {} },
  { method: "POST", path: "/snapshots", body: {} },
  { method: "POST", path: "/fork", body: {} },
  { method: "POST", path: "/timeout", body: { timeout: 60 } },
  { method: "PUT", path: "/network", body: {} },
] as const)(
  "$method $path of one that is not adopted yet tells why",
  async ({ method, path, body }) => {
    await using scene = await leaveTwo();
    const message = "isolation gvisor is not available here";
    scene.lasting.failAdoption(
      scene.failing,
      new SandboxError("unavailable", message, { hint: "runtime: no runsc is installed" }),
    );
    await using service = await scene.start();
    const reply = await service.call({ method, path: `/sandboxes/${scene.failing}${path}`, body });
    expect([reply.status, reply.body]).toMatchObject([
      503,
      {
        message: `sandbox ${scene.failing} was left by an earlier start of the service and is not adopted yet: ${message} (runtime: no runsc is installed; the service tries again at least once a minute)`,
      },
    ]);
    const key = createKey(service.embedded.store, createSystemClock(), {
      name: "x",
      team: "others",
    });
    const headers = { "x-api-key": key.key };
    const others = { method, path: `/sandboxes/${scene.failing}${path}`, body, headers };
    expect((await service.call(others)).status).toBe(404);
  },
);

test("a container that was found is not looked for again where its state cannot be restored", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failResume(scene.failing);
  await using service = await scene.start();
  const look = async () => (await service.call({ path: `/sandboxes/${scene.failing}` })).status;
  expect(await look()).toBe(503);
  await scene.clock.advance(RETRY_MS);
  await expect.poll(look).toBe(200);
  expect(scene.lasting.adoptions(scene.failing)).toBe(1);
});

test("one whose time to live has passed by then is ended, not adopted", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failAdoption(scene.failing);
  await using service = await scene.start();
  scene.clock.set(scene.clock.now() + LIFE_MS);
  await scene.clock.advance(RETRY_MS);
  await expect.poll(scene.record).toBe(undefined);
  const logs = await service.call({ path: `/sandboxes/${scene.failing}/logs` });
  expect(logs.text).toContain("timeout");
});

test.for([
  { name: "after its time", passed: () => LIFE_MS, reason: "timeout" },
  { name: "before its time is over", passed: () => 0, reason: "host_restart" },
  {
    name: "after its time, of a machine that started in the middle of it",
    passed: () => Math.round(uptime() * 1_000) + LIFE_MS / 2,
    reason: "host_restart",
  },
])("one that was gone by the next start, $name → $reason", async ({ passed, reason }) => {
  await using scene = await leaveTwo();
  await scene.lasting.engine.remove(scene.failing, "");
  scene.clock.set(scene.clock.now() + passed());
  await using service = await scene.start();
  const logs = await service.call({ path: `/sandboxes/${scene.failing}/logs` });
  expect(logs.text).toContain(reason);
});

test("one whose next service has no way to the internet is told as closed, until a later one has", async () => {
  await using scene = await leaveTwo();
  const told: unknown[] = [];
  for (const network of ["loopback", "routed"] as const) {
    scene.lasting.setNetwork(network);
    await using service = await scene.start();
    const { body } = await service.call({ path: `/sandboxes/${scene.failing}` });
    told.push(z.object({ allowInternetAccess: z.unknown() }).parse(body).allowInternetAccess);
  }
  expect(told).toEqual([false, null]);
});

test("one whose end a dying service had begun is told as ended for the reason of that end", async () => {
  await using scene = await leaveTwo();
  let begun: SandboxRecord | undefined;
  {
    await using service = await scene.start();
    using intent = atStep("kill.intent", async () => {
      begun = scene.record();
    });
    await service.call({ method: "DELETE", path: `/sandboxes/${scene.failing}` });
    expect(intent.wasReached).toBe(true);
  }
  scene.restore(begun);
  await using service = await scene.start();
  const logs = await service.call({ path: `/sandboxes/${scene.failing}/logs` });
  expect(logs.text).toContain("request");
  expect(logs.text).not.toContain("host_restart");
});

test("one that its client ends before it is adopted does not come back", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failAdoption(scene.failing);
  await using service = await scene.start();
  const path = `/sandboxes/${scene.failing}`;
  expect((await service.call({ method: "DELETE", path })).status).toBe(204);
  expect(scene.record()).toBe(undefined);
  expect((await service.call({ method: "DELETE", path })).status).toBe(404);
  await scene.clock.advance(RETRY_MS);
  expect((await service.call({ path })).status).toBe(404);
});

test("one that its client ends while it is adopted is not adopted", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failAdoption(scene.failing);
  await using service = await scene.start();
  const path = `/sandboxes/${scene.failing}`;
  let status = 0;
  {
    using found = atStep("adopt.found", async () => {
      status = (await service.call({ method: "DELETE", path })).status;
    });
    await scene.clock.advance(RETRY_MS);
    await expect.poll(() => status).toBe(204);
    expect(found.wasReached).toBe(true);
  }
  expect([scene.record(), (await service.call({ path })).status]).toEqual([undefined, 404]);
});

test("one that its client ends while its rules are set again does not come back", async () => {
  await using scene = await leaveTwo({ network: { denyOut: ["10.0.0.0/8"] } });
  scene.change({ owesEgress: true });
  scene.lasting.failAdoption(scene.failing);
  await using service = await scene.start();
  const path = `/sandboxes/${scene.failing}`;
  const { promise: ended, resolve } = Promise.withResolvers<number>();
  scene.lasting.atEgress(scene.failing, async () =>
    resolve((await service.call({ method: "DELETE", path })).status),
  );
  await scene.clock.advance(RETRY_MS);
  expect(await ended).toBe(204);
  // The adoption goes on meanwhile.
  expect([(await service.call({ path })).status, scene.record()]).toEqual([404, undefined]);
});

test("one that is not adopted ends with a service that ends its sandboxes", async () => {
  await using scene = await leaveTwo();
  scene.lasting.failAdoption(scene.failing);
  await (await scene.start("kill"))[Symbol.asyncDispose]();
  expect(scene.record()).toBe(undefined);
});

test.for([
  { autoPause: false, status: 404, body: {} },
  { autoPause: true, status: 200, body: { state: "paused", pauseReason: "timeout" } },
])("a time to live that passed without a service is kept: %j", async ({ autoPause, ...reply }) => {
  await using scene = await leaveTwo({ autoPause });
  scene.clock.set(scene.clock.now() + LIFE_MS);
  await using service = await scene.start();
  await expect.poll(() => service.call({ path: `/sandboxes/${scene.other}` })).toMatchObject(reply);
});

test.for([
  { asked: 60, left: 3_600, lives: 3_600 },
  { asked: 3_600, left: 60, lives: 3_600 },
  // As where the clock was set back by a year before the pause.
  { asked: 60, left: 31_536_000, lives: 86_400 },
])(
  "one paused for want of space, with $left s left, lives $lives s for $asked s",
  async (given) => {
    await using scene = await leaveTwo();
    scene.change({ state: "paused", pauseReason: "disk_full", leftMs: given.left * 1_000 });
    await using service = await scene.start();
    const path = `/sandboxes/${scene.failing}`;
    const body = { timeout: given.asked };
    const reply = await service.call({ method: "POST", path: `${path}/connect`, body });
    expect(reply.status).toBe(201);
    const endAt = new Date(scene.clock.now() + given.lives * 1_000).toISOString();
    expect((await service.call({ path })).body).toMatchObject({ state: "running", endAt });
  },
);

test("rules of a change that was begun are those on record again", async () => {
  const network = { denyOut: ["10.0.0.0/8"] };
  await using scene = await leaveTwo({ network });
  scene.change({ owesEgress: true });
  await using service = await scene.start();
  expect(scene.lasting.egressOf(scene.failing)).toEqual([
    { allow: [], deny: ["10.0.0.0/8"], domains: [] },
  ]);
  expect(scene.lasting.egressOf(scene.other)).toEqual([]);
  expect(scene.record()).toMatchObject({ network, owesEgress: false });
  expect((await service.call({ path: `/sandboxes/${scene.failing}` })).status).toBe(200);
});

/** One after another of a home, whose sandboxes outlive each. */
async function startWithLimit(limited: {
  readonly home: string;
  readonly engine: Engine;
  readonly maxSandboxes: number;
}): Promise<TestService> {
  return startTestService({ ...limited, instance: "one", onExit: "leave" });
}

test("where fewer may run now, traffic for a paused one is told of its own team alone", async () => {
  await using home = await makeTempFolder();
  await using lasting = createLastingEngine(createLayerEngine());
  const start = async (maxSandboxes: number) =>
    startWithLimit({ home: home.path, engine: lasting.engine, maxSandboxes });
  let sandboxID = "";
  {
    await using first = await start(3);
    const { key } = createKey(first.embedded.store, createSystemClock(), {
      name: "x",
      team: "others",
    });
    const headers = { "x-api-key": key };
    const body = { templateID: "base", timeout: 600, autoResume: { enabled: true } };
    const created = await first.call({ method: "POST", path: "/sandboxes", headers, body });
    ({ sandboxID } = z.object({ sandboxID: z.string() }).parse(created.body));
    await first.call({ method: "POST", path: `/sandboxes/${sandboxID}/pause`, headers, body: {} });
    for (let count = 0; count < 2; count += 1) await first.create({ timeout: 600 });
  }
  await using second = await start(2);
  const reply = await second.enter({ sandboxID }, { path: "/health" });
  expect(reply.status).toBe(429);
  expect(reply.body).toMatchObject({
    message: expect.stringContaining("your team has 0 running of"),
  });
});

test("where fewer may run now, resumes at once take no more places than there are", async () => {
  await using home = await makeTempFolder();
  await using lasting = createLastingEngine(createLayerEngine());
  const start = async (maxSandboxes: number) =>
    startWithLimit({ home: home.path, engine: lasting.engine, maxSandboxes });
  const ids: string[] = [];
  {
    await using first = await start(3);
    while (ids.length < 3) {
      const { sandboxID } = await first.create({ timeout: 600 });
      await first.call({ method: "POST", path: `/sandboxes/${sandboxID}/pause`, body: {} });
      ids.push(sandboxID);
    }
  }
  await using second = await start(1);
  const connect = async (id = "") =>
    second.call({ method: "POST", path: `/sandboxes/${id}/connect`, body: { timeout: 600 } });
  const held = Promise.withResolvers<void>();
  using thawed = atStep("resume.thawed", async () => held.promise);
  const first = connect(ids[0]);
  await expect.poll(() => thawed.wasReached).toBe(true);
  const message =
    "you have reached the maximum number of concurrent E2B sandboxes (1): your team has 1 running of at most 1, the service takes 1. If you need more, raise --max-sandboxes";
  try {
    expect(await connect(ids[1])).toMatchObject({ status: 429, body: { message } });
  } finally {
    held.resolve();
  }
  expect((await first).status).toBe(201);
  expect(await connect(ids[2])).toMatchObject({ status: 429, body: { message } });
});
