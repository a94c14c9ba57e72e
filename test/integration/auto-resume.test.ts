/** Paused sandboxes that traffic brings back, and whom they stay closed to. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { signFile } from "../../src/wire/signature.ts";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startEchoServer, type EchoServer } from "../support/network/echo.ts";
import { startTestService, type Call, type TestService } from "../support/service.ts";

const HEALTH = { path: "/health" };
const AUTO_RESUME = { autoResume: { enabled: true } };
const REFUSED =
  "This sandbox can't be resumed with the credentials provided. Check your access token and try again.";

let echo: EchoServer;
let service: TestService;
beforeAll(async () => {
  echo = await startEchoServer();
  service = await startTestService();
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await echo[Symbol.asyncDispose]();
});

async function sleeper(body: Record<string, unknown> = {}): Promise<SandboxBody> {
  const sandbox = await service.create({ ...AUTO_RESUME, ...body });
  await service.embedded.sandboxes.pause(sandbox.sandboxID, true);
  return sandbox;
}

function stateOf({ sandboxID }: SandboxBody): string {
  return service.embedded.sandboxes.get(sandboxID).state;
}

function withToken(sandbox: SandboxBody): Call {
  return { ...HEALTH, headers: { "x-access-token": String(sandbox.envdAccessToken) } };
}

test("the daemon's port of a secured sandbox wakes it for its token only", async () => {
  const sandbox = await sleeper();
  const body = { sandboxId: sandbox.sandboxID, message: REFUSED, code: 403 };
  for (const headers of [{}, { "x-access-token": "wrong" }]) {
    expect(await service.enter(sandbox, { ...HEALTH, headers })).toMatchObject({
      status: 403,
      body,
    });
  }
  expect(stateOf(sandbox)).toBe("paused");
  expect((await service.enter(sandbox, withToken(sandbox))).status).toBe(204);
  expect(stateOf(sandbox)).toBe("running");
});

test("any request to a public port wakes it", async () => {
  const sandbox = await sleeper();
  const replies = await Promise.all(
    [1, 2, 3].map(() => service.enter({ ...sandbox, port: echo.port }, { path: "/" })),
  );
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
});

test("a port of a private sandbox wakes it for the traffic token only", async () => {
  const sandbox = await sleeper({ network: { allowPublicTraffic: false } });
  const address = { ...sandbox, port: echo.port };
  const enter = (token: string) =>
    service.enter(address, { path: "/", headers: { "e2b-traffic-access-token": token } });
  expect(await enter("wrong")).toMatchObject({ status: 403, body: { message: REFUSED } });
  expect(await enter(String(sandbox.envdAccessToken))).toMatchObject({ status: 403 });
  expect((await enter(String(sandbox.trafficAccessToken))).status).toBe(200);
});

function signedUrl({ envdAccessToken }: SandboxBody): string {
  const file = { path: "a", operation: "read" as const, username: "", expiration: undefined };
  const signature = signFile(file, String(envdAccessToken));
  return `/files?${new URLSearchParams({ path: "a", signature }).toString()}`;
}

test("a signed file URL does not wake a sandbox, with or without its address", async () => {
  const sandbox = await sleeper();
  const path = signedUrl(sandbox);
  const expected = { status: 403, body: { message: REFUSED, sandboxId: sandbox.sandboxID } };
  expect(await service.enter(sandbox, { path })).toMatchObject(expected);
  expect(await service.call({ path })).toMatchObject(expected);
  expect(stateOf(sandbox)).toBe("paused");
});

test("without autoResume, or once it is gone, it is not found", async () => {
  const other = await sleeper({ autoResume: { enabled: false } });
  expect((await service.enter(other, withToken(other))).status).toBe(502);
  const found = await service.call({ path: signedUrl(other) });
  expect(found).toMatchObject({ status: 502, body: { sandboxId: other.sandboxID } });
  const gone = await sleeper();
  await service.embedded.sandboxes.kill(gone.sandboxID);
  expect((await service.enter(gone, withToken(gone))).status).toBe(502);
});

test.for([
  { timeout: 30, expected: 300 },
  { timeout: 900, expected: 900 },
])("woken after a timeout of $timeout s it lives $expected s", async ({ timeout, expected }) => {
  const sandbox = await sleeper({ timeout });
  await service.enter(sandbox, withToken(sandbox));
  const { startedAtMs, endAtMs } = service.embedded.sandboxes.get(sandbox.sandboxID);
  expect((endAtMs - startedAtMs) / 1000).toBe(expected);
});

test("start and expiry of a run are of one reading of the clock", async () => {
  const system = createSystemClock();
  let readings = 0;
  const now = () => system.now() + (readings += 1);
  await using later = await startTestService({ clock: { ...system, now } });
  const { sandboxID } = await later.create({ timeout: 30 });
  const lifeMs = () => {
    const { startedAtMs, endAtMs } = later.embedded.sandboxes.get(sandboxID);
    return endAtMs - startedAtMs;
  };
  expect(lifeMs()).toBe(30_000);
  await later.embedded.sandboxes.pause(sandboxID, true);
  await later.call({
    method: "POST",
    path: `/sandboxes/${sandboxID}/connect`,
    body: { timeout: 60 },
  });
  expect(lifeMs()).toBe(60_000);
});

test("a request during the pause waits for its end", async () => {
  const sandbox = await service.create(AUTO_RESUME);
  const pause = service.embedded.sandboxes.pause(sandbox.sandboxID, true);
  const [reply] = await Promise.all([service.enter(sandbox, withToken(sandbox)), pause]);
  expect(reply.status).toBe(204);
});

test("a request that waits for a pause is told after 60 seconds that it goes on", async () => {
  const clock = createFakeClock();
  const engine = createHeldEngine();
  await using slow = await startTestService({ clock, engine: engine.engine });
  const sandbox = await slow.create(AUTO_RESUME);
  let pause: Promise<boolean>;
  {
    using held = engine.hold("pause");
    pause = slow.embedded.sandboxes.pause(sandbox.sandboxID, true);
    await held.reached;
    const early = Promise.withResolvers<void>();
    const reply = slow.enter(sandbox, withToken(sandbox)).finally(() => early.resolve());
    await expect.poll(() => clock.isAwaited(60_000)).toBe(true);
    await clock.advance(59_999);
    expect(await Promise.race([early.promise, Promise.resolve("waits")])).toBe("waits");
    await clock.advance(1);
    expect(await reply).toMatchObject({
      status: 409,
      body: {
        sandboxId: sandbox.sandboxID,
        message: "The sandbox is still transitioning. Try again in a moment.",
        code: 409,
      },
    });
  }
  await pause;
  // Who was told so no longer waits: nothing wakes it behind their back.
  expect(slow.embedded.sandboxes.get(sandbox.sandboxID).state).toBe("paused");
  expect((await slow.enter(sandbox, withToken(sandbox))).status).toBe(204);
});

test("a paused sandbox keeps its place, so that waking it never exceeds the limit", async () => {
  await using small = await startTestService({ maxSandboxes: 1 });
  const sandbox = await small.create(AUTO_RESUME);
  await small.embedded.sandboxes.pause(sandbox.sandboxID, true);
  expect(
    await small.call({ method: "POST", path: "/v2/sandboxes", body: { templateID: "base" } }),
  ).toMatchObject({ status: 429 });
  expect((await small.enter(sandbox, withToken(sandbox))).status).toBe(204);
});
