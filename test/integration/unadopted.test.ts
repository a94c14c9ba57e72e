/** Sandboxes that an earlier process left and that no start could adopt yet: what clients see of them. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { createService } from "../../src/client/service.ts";
import { SandboxError } from "../../src/common/errors.ts";
import { z } from "../../src/common/schema.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import { openStore } from "../../src/store/sqlite.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { signFile } from "../../src/wire/signature.ts";
import { createLastingEngine } from "../support/engine/lasting-engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startServer } from "../support/mcp/mcp-server.ts";
import { startTestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const LIFE_MS = 60_000;
const RETRY_MS = 1_000;
const FAULT = new SandboxError("unavailable", "isolation gvisor is not available here", {
  hint: "runtime: no runsc is installed at /opt/x",
});

/** A sandbox that the next service does not adopt at first. */
async function leaveOne(body: object = {}, isPaused = false) {
  await using stack = new AsyncDisposableStack();
  const home = stack.use(await makeTempFolder());
  const lasting = stack.use(createLastingEngine(createLayerEngine()));
  const clock = createFakeClock();
  const { engine } = lasting;
  const start = () =>
    startTestService({ home: home.path, instance: "one", onExit: "leave", engine, clock });
  let sandbox: SandboxBody;
  {
    await using first = await start();
    sandbox = await first.create({ timeout: LIFE_MS / 1_000, ...body });
    const path = `/sandboxes/${sandbox.sandboxID}/pause`;
    if (isPaused) await first.call({ method: "POST", path, body: {} });
  }
  lasting.failAdoption(sandbox.sandboxID, FAULT);
  const owned = stack.move();
  return {
    clock,
    sandbox,
    start,
    home: home.path,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const listSchema = z.array(z.looseObject({ sandboxID: z.string(), state: z.string() }));

test.for([
  { name: "running", isPaused: false, path: "/sandboxes", states: ["running"] },
  { name: "running", isPaused: false, path: "/v2/sandboxes", states: ["running"] },
  { name: "running", isPaused: false, path: "/v2/sandboxes?state=paused", states: [] },
  { name: "paused", isPaused: true, path: "/sandboxes", states: [] },
  { name: "paused", isPaused: true, path: "/v2/sandboxes", states: ["paused"] },
])("$path has a $name one as $states", async ({ isPaused, path, states }) => {
  await using scene = await leaveOne({}, isPaused);
  await using service = await scene.start();
  const { sandboxID } = scene.sandbox;
  expect((await service.call({ path: `/sandboxes/${sandboxID}` })).status).toBe(503);
  const reply = await service.call({ path });
  const listed = listSchema.parse(reply.body);
  expect(listed.map(({ state }) => state)).toEqual(states);
  expect(listed.filter((one) => "isolation" in one)).toEqual([]);
});

test("another team sees nothing of it, in lists or at the gateway", async () => {
  await using scene = await leaveOne({ secure: true });
  await using service = await scene.start();
  const { sandboxID } = scene.sandbox;
  const { store } = service.embedded;
  const { key } = createKey(store, scene.clock, { name: "x", team: "others" });
  const headers = { "x-api-key": key };
  for (const path of ["/sandboxes", "/v2/sandboxes"]) {
    const reply = await service.call({ path, headers });
    expect([reply.body, reply.headers["x-total-running"] ?? "0"]).toEqual([[], "0"]);
  }
  for (const rest of ["", "/metrics"]) {
    const reply = await service.call({ path: `/sandboxes/${sandboxID}${rest}`, headers });
    expect([reply.status, reply.text]).toEqual([404, expect.not.stringContaining("adopted")]);
  }
  const wrong = { "x-access-token": "wrong" };
  const entered = await service.enter({ sandboxID }, { path: "/health", headers: wrong });
  expect([entered.status, entered.text]).toEqual([502, expect.not.stringContaining("adopted")]);
});

test("list_sandboxes shows it, and a tool that needs it tells why it cannot be had", async () => {
  await using scene = await leaveOne();
  await using started = await scene.start();
  await using service = createService(started.embedded);
  await using server = await startServer({ test: started, service });
  const { sandboxID } = scene.sandbox;
  const listed = await server.ask("list_sandboxes", {});
  expect(listed).toContain(sandboxID);
  expect(listed).toContain("running");
  const told = await server.ask("run_process", { sandbox_id: sandboxID, cmd: "true" });
  expect(told).toContain("is not adopted yet");
});

test("a list counts it among the running ones", async () => {
  await using scene = await leaveOne();
  await using service = await scene.start();
  const { headers } = await service.call({ path: "/v2/sandboxes" });
  expect(headers["x-total-running"]).toBe("1");
});

test("once adopted it is listed once, and one that was ended not at all", async () => {
  await using scene = await leaveOne();
  await using service = await scene.start();
  const count = async () =>
    listSchema.parse((await service.call({ path: "/v2/sandboxes" })).body).length;
  expect(await count()).toBe(1);
  const path = `/sandboxes/${scene.sandbox.sandboxID}`;
  await scene.clock.advance(RETRY_MS);
  await expect.poll(async () => (await service.call({ path })).status).toBe(200);
  expect(await count()).toBe(1);
  await service.call({ method: "DELETE", path });
  expect(await count()).toBe(0);
});

test.for([
  { autoPause: false, states: [] },
  { autoPause: true, states: ["paused"] },
])("one whose time is over by then is listed as $states", async ({ autoPause, states }) => {
  await using scene = await leaveOne({ autoPause });
  await using service = await scene.start();
  scene.clock.set(scene.clock.now() + LIFE_MS);
  const reply = await service.call({ path: "/v2/sandboxes" });
  expect(listSchema.parse(reply.body).map(({ state }) => state)).toEqual(states);
});

test("the gateway tells why, without paths, those who could enter it", async () => {
  await using scene = await leaveOne({ secure: true });
  await using service = await scene.start();
  const { sandboxID, envdAccessToken } = scene.sandbox;
  const message = `sandbox ${sandboxID} was left by an earlier start of the service and is not adopted yet: ${FAULT.message}`;
  const told = { status: 503, body: { sandboxId: sandboxID, code: 503, message } };
  const headers = { "x-access-token": envdAccessToken ?? "" };
  const ask = (port: number, more = {}) =>
    service.enter({ sandboxID, port }, { path: "/health", headers: more });
  expect(await ask(49_983, headers)).toMatchObject({
    ...told,
    headers: { "should-retry": "true" },
  });
  expect(await ask(8_000)).toMatchObject(told);
  expect((await ask(49_983)).status).toBe(502);
});

test("a signed file URL of it tells why, and counts as right", async () => {
  await using scene = await leaveOne({ secure: true });
  await using service = await scene.start();
  const token = scene.sandbox.envdAccessToken ?? "";
  const file = { path: "a", operation: "read", username: "", expiration: undefined } as const;
  const path = `/files?path=a&signature=${encodeURIComponent(signFile(file, token))}`;
  const reply = await service.call({ path, headers: { "x-api-key": "" } });
  expect([reply.status, reply.text]).toEqual([503, expect.stringContaining(FAULT.message)]);
});

test("one whose row is gone is forgotten", async () => {
  await using scene = await leaveOne();
  await using service = await scene.start();
  const path = `/sandboxes/${scene.sandbox.sandboxID}`;
  expect((await service.call({ path })).status).toBe(503);
  using store = openStore({ path: join(scene.home, "state.db") });
  store.sandboxes.remove(scene.sandbox.sandboxID);
  await scene.clock.advance(RETRY_MS);
  await expect.poll(async () => (await service.call({ path })).status).toBe(404);
});
