/** A pause that keeps the files only, and the fresh start after it, on the `bare` engine. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service[Symbol.asyncDispose]());

const environmentSchema = z.record(z.string(), z.string());

async function environmentOf(sandbox: SandboxBody): Promise<Record<string, string>> {
  const headers = { "x-access-token": String(sandbox.envdAccessToken) };
  return environmentSchema.parse((await service.enter(sandbox, { path: "/envs", headers })).body);
}

function post(sandbox: SandboxBody, operation: string, body: Record<string, unknown> = {}) {
  const path = `/v2/sandboxes/${sandbox.sandboxID}/${operation}`;
  return service.call({
    method: "POST",
    path: operation === "connect" ? path : path.slice("/v2".length),
    body,
  });
}

function stateOf({ sandboxID }: SandboxBody): string {
  return service.embedded.sandboxes.get(sandboxID).state;
}

test("connect after it is a boot of its own with the same tokens and environment", async () => {
  const sandbox = await service.create({ envVars: { NAME: "value" }, metadata: { a: "b" } });
  const { E2B_BOOT_ID: first, ...rest } = await environmentOf(sandbox);
  expect((await post(sandbox, "pause", { memory: false })).status).toBe(204);
  expect(stateOf(sandbox)).toBe("paused");
  expect((await post(sandbox, "pause", { memory: false })).status).toBe(409);
  expect((await service.enter(sandbox, { path: "/health" })).status).toBe(502);
  const connected = await post(sandbox, "connect");
  expect({ status: connected.status, body: connected.body }).toEqual({
    status: 201,
    body: sandbox,
  });
  const { E2B_BOOT_ID: second, ...same } = await environmentOf(sandbox);
  expect(same).toEqual(rest);
  expect(same).toMatchObject({ NAME: "value" });
  expect(second).not.toBe(first);
});

test("a pause with memory keeps the boot, unless connect asks for another", async () => {
  const sandbox = await service.create();
  const { E2B_BOOT_ID: first } = await environmentOf(sandbox);
  await post(sandbox, "pause");
  await post(sandbox, "connect");
  expect((await environmentOf(sandbox))["E2B_BOOT_ID"]).toBe(first);
  await post(sandbox, "pause");
  const body = { memory: false };
  const statuses = await Promise.all([1, 2, 3].map(() => post(sandbox, "connect", body)));
  expect(statuses.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(statuses.filter(({ status }) => status === 200)).toHaveLength(2);
  const { E2B_BOOT_ID: second } = await environmentOf(sandbox);
  expect(second).not.toBe(first);
  // It runs: nothing is started anew.
  expect((await post(sandbox, "connect", body)).status).toBe(200);
  expect((await environmentOf(sandbox))["E2B_BOOT_ID"]).toBe(second);
});

test("autoPauseMemory false pauses so at the timeout", async () => {
  const sandbox = await service.create({ timeout: 1, autoPause: true, autoPauseMemory: false });
  const stored = () => service.embedded.store.sandboxes.get(sandbox.sandboxID);
  const expected = { state: "paused", hasMemory: false };
  await expect.poll(stored, { timeout: 5000 }).toMatchObject(expected);
  expect((await post(sandbox, "resume", { timeout: 60 })).status).toBe(201);
});

test("autoResume does not wake what has no memory", async () => {
  const sandbox = await service.create({ autoResume: { enabled: true } });
  await post(sandbox, "pause", { memory: false });
  const headers = { "x-access-token": String(sandbox.envdAccessToken) };
  expect((await service.enter(sandbox, { path: "/health", headers })).status).toBe(502);
  expect(stateOf(sandbox)).toBe("paused");
  expect(
    (await service.call({ method: "DELETE", path: `/sandboxes/${sandbox.sandboxID}` })).status,
  ).toBe(204);
});
