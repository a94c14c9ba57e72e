/** Forks over the wire: what they take over, what is their own, and what is left of them. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import type { StepMessage, StepName } from "../../src/common/steps.ts";
import { sandboxSchema } from "../../src/wire/control.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

const forksSchema = z.array(
  z.object({
    sandbox: sandboxSchema.optional(),
    error: z.object({ code: z.number(), message: z.string() }).optional(),
  }),
);

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine(), maxSandboxes: 6 });
});
afterAll(() => service[Symbol.asyncDispose]());

async function fork(sandboxId: string, body?: Record<string, unknown>) {
  const reply = await service.call({
    method: "POST",
    path: `/sandboxes/${sandboxId}/fork`,
    ...(body !== undefined && { body }),
  });
  return { status: reply.status, body: reply.body };
}

async function endAll(): Promise<void> {
  const { sandboxes, store } = service.embedded;
  for (const { sandboxId } of store.sandboxes.ofOwner(service.embedded.instance)) {
    await sandboxes.kill(sandboxId);
  }
}

test("forks are sandboxes of their own that take over all settings of the source", async () => {
  const source = await service.create({
    timeout: 100,
    autoPause: true,
    autoResume: { enabled: true },
    metadata: { a: "b" },
    envVars: { NAME: "value" },
    network: { allowPublicTraffic: false, denyOut: ["0.0.0.0/0"] },
  });
  const before = await service.call({ path: `/sandboxes/${source.sandboxID}` });
  const reply = await fork(source.sandboxID, { count: 2, timeout: 60 });
  expect(reply.status).toBe(201);
  const forks = forksSchema.parse(reply.body).map(({ sandbox }) => sandboxSchema.parse(sandbox));
  const all = [source, ...forks];
  expect(new Set(all.map(({ sandboxID }) => sandboxID)).size).toBe(3);
  expect(new Set(all.map(({ envdAccessToken }) => envdAccessToken)).size).toBe(3);
  expect(new Set(all.map(({ trafficAccessToken }) => trafficAccessToken)).size).toBe(3);
  expect((await service.call({ path: `/sandboxes/${source.sandboxID}` })).body).toEqual(
    before.body,
  );
  const own = z.looseObject({ startedAt: z.string(), endAt: z.string() });
  for (const { sandboxID, envdAccessToken } of forks) {
    const found = await service.call({ path: `/sandboxes/${sandboxID}` });
    const detail = own.parse(found.body);
    expect(Date.parse(detail.endAt) - Date.parse(detail.startedAt)).toBe(60_000);
    const { startedAt, endAt } = detail;
    expect(detail).toEqual({
      ...own.parse(before.body),
      sandboxID,
      envdAccessToken,
      startedAt,
      endAt,
    });
    const headers = { "x-access-token": String(envdAccessToken) };
    const environment = await service.enter({ sandboxID }, { path: "/envs", headers });
    expect(environment.body).toMatchObject({ NAME: "value", E2B_SANDBOX_ID: sandboxID });
  }
  await endAll();
});

test("the copy goes with the last sandbox on it", async () => {
  const layers = () => readdir(join(service.home, "layers"));
  const { sandboxID } = await service.create();
  const { body } = await fork(sandboxID, { count: 2 });
  const [first, second] = forksSchema
    .parse(body)
    .map(({ sandbox }) => sandboxSchema.parse(sandbox).sandboxID);
  const { sandboxes } = service.embedded;
  await sandboxes.kill(sandboxID);
  await sandboxes.kill(String(first));
  expect(await layers()).toHaveLength(1);
  const inner = await fork(String(second));
  await sandboxes.kill(String(second));
  // The fork of the fork stands on both copies.
  expect(await layers()).toHaveLength(2);
  const [last] = forksSchema.parse(inner.body);
  await sandboxes.kill(String(last?.sandbox?.sandboxID));
  expect(await layers()).toEqual([]);
  expect(service.embedded.store.builds.all()).toHaveLength(1);
});

test("forks beyond the limit say so, each for itself", async () => {
  await Promise.all([1, 2, 3].map(() => service.create()));
  const { sandboxID } = await service.create();
  const { status, body } = await fork(sandboxID, { count: 4 });
  expect(status).toBe(201);
  const results = forksSchema.parse(body);
  expect(results.filter(({ sandbox }) => sandbox !== undefined)).toHaveLength(2);
  expect(results.flatMap(({ error }) => error ?? [])).toEqual(
    [1, 2].map(() => ({
      code: 429,
      message:
        "you have reached the maximum number of concurrent E2B sandboxes (6): your team has 6 of at most 6, paused ones included, the service takes 6. If you need more, raise --max-sandboxes",
    })),
  );
  await endAll();
});

test.for([
  { body: { count: 0 }, message: "Count must be at least 1" },
  { body: { count: 101 }, message: "Count cannot be greater than 100" },
  {
    body: { count: 6 },
    message: "Count must be lower than the maximum number of concurrent sandboxes (6)",
  },
  { body: { timeout: 0 }, message: "Timeout must be greater than 0" },
  { body: { timeout: 86_401 }, message: "Timeout cannot be greater than 24 hours" },
])("$body is refused", async ({ body, message }) => {
  const { sandboxID } = await service.create();
  expect(await fork(sandboxID, body)).toEqual({ status: 400, body: { code: 400, message } });
  await endAll();
});

test("a paused sandbox is not forked", async () => {
  const { sandboxID } = await service.create();
  await service.embedded.sandboxes.pause(sandboxID, true);
  expect(await fork(sandboxID)).toEqual({
    status: 409,
    body: {
      code: 409,
      message: `Sandbox '${sandboxID}' is paused and cannot be forked; resume it first`,
    },
  });
  await endAll();
});

/** Does this at a step, which waits for it, until the work is over. */
async function atStep(name: StepName, act: () => Promise<void>, work: () => Promise<void>) {
  const listen = (message: unknown) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the channel carries nothing else
    const step = message as StepMessage;
    if (step.name === name) step.hold = act();
  };
  subscribe("sandbox-mcp:step", listen);
  try {
    await work();
  } finally {
    unsubscribe("sandbox-mcp:step", listen);
  }
}

test.for(["fork.copied", "fork.started"] as const)(
  "a client that leaves at %s leaves no forks",
  async (step) => {
    await endAll();
    const { sandboxID } = await service.create();
    const layers = async () => readdir(join(service.home, "layers"));
    const before = await layers();
    const client = new AbortController();
    const left = Promise.withResolvers<void>();
    const leave = async () => {
      client.abort();
      await left.promise;
      // The service reads the end of the connection before what comes after it.
      for (let count = 0; count < 2; count += 1) await service.call({ path: "/v2/sandboxes" });
    };
    await atStep(step, leave, async () => {
      const forking = request(`http://localhost/sandboxes/${sandboxID}/fork`, {
        dispatcher: service.dispatcher,
        method: "POST",
        headers: { "x-api-key": service.embedded.apiKey, "content-type": "application/json" },
        body: JSON.stringify({ count: 2 }),
        signal: client.signal,
      });
      await expect(forking).rejects.toThrow("aborted");
      left.resolve();
      await expect.poll(layers).toEqual(before);
    });
    const { store, instance } = service.embedded;
    const ids = store.sandboxes.ofOwner(instance).map(({ sandboxId }) => sandboxId);
    expect(ids).toEqual([sandboxID]);
  },
);
