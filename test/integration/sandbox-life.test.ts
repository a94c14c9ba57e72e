/** A sandbox from create to its end, over the wire, on the `bare` engine. */

import { access, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

const HEALTH = { path: "/health" };

function post(service: TestService, path: string, body?: unknown) {
  return service.call({ method: "POST", path, ...(body !== undefined && { body }) });
}

async function stateOf(service: TestService, sandboxId: string): Promise<unknown> {
  const { status, body } = await service.call({ path: `/sandboxes/${sandboxId}` });
  return status === 200 && typeof body === "object" && body !== null && "state" in body
    ? body.state
    : status;
}

test("pause breaks it off, connect brings it back with the same token", async () => {
  await using service = await startTestService();
  const created = await service.create();
  const path = `/sandboxes/${created.sandboxID}`;
  expect((await service.enter(created, HEALTH)).status).toBe(204);

  expect((await post(service, `${path}/pause`)).status).toBe(204);
  expect(await stateOf(service, created.sandboxID)).toBe("paused");
  expect(await service.enter(created, HEALTH)).toMatchObject({
    status: 502,
    body: {
      sandboxId: created.sandboxID,
      message: "The sandbox was not found",
      code: 502,
    },
  });
  expect(await post(service, `${path}/pause`, {})).toMatchObject({
    status: 409,
    body: {
      code: 409,
      message: `Error pausing sandbox - sandbox '${created.sandboxID}' is already paused`,
    },
  });
  expect((await post(service, `${path}/timeout`, { timeout: 9 })).status).toBe(404);
  expect((await post(service, `${path}/snapshots`)).status).toBe(404);

  const connected = await post(service, `/v2${path}/connect`);
  expect({ status: connected.status, body: connected.body }).toEqual({
    status: 201,
    body: created,
  });
  expect((await service.enter(created, HEALTH)).status).toBe(204);
  expect((await post(service, `/v2${path}/connect`)).status).toBe(200);
  expect(await post(service, `${path}/resume`)).toMatchObject({
    status: 409,
    body: { code: 409, message: `Sandbox ${created.sandboxID} is already running` },
  });
});

test("connect never shortens a life, timeout may", async () => {
  await using service = await startTestService();
  const { sandboxID } = await service.create({ timeout: 300 });
  const endAt = () => service.embedded.sandboxes.get(sandboxID).endAtMs;
  const first = endAt();
  await post(service, `/sandboxes/${sandboxID}/connect`, { timeout: 10 });
  expect(endAt()).toBe(first);
  await post(service, `/sandboxes/${sandboxID}/connect`, { timeout: 600 });
  expect(endAt()).toBeGreaterThan(first + 299_000);
  await post(service, `/sandboxes/${sandboxID}/refreshes`, {});
  expect(endAt()).toBeGreaterThan(first + 299_000);
  await post(service, `/sandboxes/${sandboxID}/timeout`, { timeout: 10 });
  expect(endAt()).toBeLessThan(first);
  await post(service, `/sandboxes/${sandboxID}/timeout`, { timeout: 999_999 });
  expect(endAt()).toBe(service.embedded.sandboxes.get(sandboxID).startedAtMs + 86_400_000);
});

test("a timeout of 0 expires at once", async () => {
  await using service = await startTestService();
  const reply = await post(service, "/sandboxes", { templateID: "base", timeout: 0 });
  expect(reply.status).toBe(201);
  await expect.poll(() => service.embedded.sandboxes.endpoints()).toEqual([]);
  const { sandboxID } = await service.create();
  await post(service, `/sandboxes/${sandboxID}/timeout`, { timeout: 0 });
  await expect.poll(() => stateOf(service, sandboxID)).toBe(404);
});

test("at its timeout a sandbox with autoPause is paused, again after each resume", async () => {
  await using service = await startTestService();
  const { sandboxID } = await service.create({ timeout: 1, autoPause: true });
  await expect.poll(() => stateOf(service, sandboxID), { timeout: 5000 }).toBe("paused");
  await post(service, `/sandboxes/${sandboxID}/resume`, { timeout: 1 });
  expect(await stateOf(service, sandboxID)).toBe("running");
  await expect.poll(() => stateOf(service, sandboxID), { timeout: 5000 }).toBe("paused");
});

test("a sandbox killed from outside is gone within 2 s", async () => {
  await using service = await startTestService();
  const created = await service.create();
  await killDaemon(service, created.sandboxID);
  await expect.poll(() => stateOf(service, created.sandboxID), { timeout: 2000 }).toBe(404);
  const path = `/sandboxes/${created.sandboxID}/logs`;
  await expect.poll(async () => (await service.call({ path })).text).toContain("Sandbox stopped");
});

test("kill ends it for good, and its log stays", async () => {
  await using service = await startTestService();
  const created = await service.create();
  const path = `/sandboxes/${created.sandboxID}`;
  const folder = folderOf(service, created.sandboxID);
  await access(folder);
  const [first, second] = await Promise.all([
    service.call({ method: "DELETE", path }),
    service.call({ method: "DELETE", path }),
  ]);
  expect([first.status, second.status]).toEqual([204, 204]);
  expect((await service.call({ method: "DELETE", path })).status).toBe(404);
  await expect(access(folder)).rejects.toMatchObject({ code: "ENOENT" });
  expect(await service.enter(created, HEALTH)).toMatchObject({ status: 502 });
  const lines = await service.embedded.sandboxes.logs({
    sandboxId: created.sandboxID,
    limit: 100,
  });
  const messages = lines.map(({ line }) => String(JSON.parse(line).message));
  expect(messages.at(0)).toBe("Sandbox created");
  expect(messages.slice(-2)).toEqual(["Killing sandbox", "Sandbox stopped"]);
});

test("operations at the same time join or take turns", async () => {
  await using service = await startTestService();
  const { sandboxes } = service.embedded;
  const { sandboxID } = await service.create();
  const options = { timeoutSeconds: 60, keepsMemory: true };
  await Promise.all([1, 2, 3].map(() => sandboxes.pause(sandboxID, true)));
  const connects = await Promise.all([1, 2, 3].map(() => sandboxes.connect(sandboxID, options)));
  expect(connects.map(({ wasResumed }) => wasResumed)).toEqual([true, false, false]);
  const [pause, kill, connect, get] = await Promise.allSettled([
    sandboxes.pause(sandboxID, true),
    sandboxes.kill(sandboxID),
    sandboxes.connect(sandboxID, options),
    Promise.try(() => sandboxes.get(sandboxID)),
  ]);
  expect([pause.status, kill.status]).toEqual(["fulfilled", "fulfilled"]);
  expect(connect).toMatchObject({
    reason: {
      code: "failed_precondition",
      message: `Sandbox "${sandboxID}" is being killed`,
    },
  });
  expect(get).toMatchObject({ reason: { code: "not_found" } });
});

test("there are at most as many as were allowed", async () => {
  await using service = await startTestService({ maxSandboxes: 2 });
  const replies = await Promise.all(
    [1, 2, 3, 4].map(() => post(service, "/v2/sandboxes", { templateID: "base" })),
  );
  expect(sorted(replies.map(({ status }) => status))).toEqual([201, 201, 429, 429]);
  expect(replies.find(({ status }) => status === 429)?.body).toEqual({
    code: 429,
    error_code: "sandbox_capacity_unavailable",
    message:
      "you have reached the maximum number of concurrent E2B sandboxes (2): your team has 2 of at most 2, paused ones included, the service takes 2. If you need more, raise --max-sandboxes",
  });
});

test("what the engine refuses leaves nothing", async () => {
  await using service = await startTestService();
  const { sandboxID } = await service.create();
  const reply = await post(service, `/sandboxes/${sandboxID}/snapshots`, { name: "web:1" });
  expect(reply).toMatchObject({ status: 501, body: { code: 501 } });
  expect(await stateOf(service, sandboxID)).toBe("running");
  expect((await service.call({ path: "/snapshots" })).body).toEqual([]);
  expect(service.embedded.store.builds.all()).toHaveLength(1);
});

/** The daemon on the `bare` engine works in the folder of its container. */
async function killDaemon(service: TestService, sandboxId: string): Promise<void> {
  const folder = folderOf(service, sandboxId);
  for (const name of await readdir("/proc")) {
    if (!/^[0-9]+$/.test(name)) continue;
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => undefined);
    if (cwd === folder) process.kill(Number(name), "SIGKILL");
  }
}

function folderOf({ home, embedded }: TestService, sandboxId: string): string {
  return join(home, "instances", embedded.instance, "s", sandboxId);
}

function sorted(values: readonly number[]): number[] {
  return values.toSorted((left, right) => left - right);
}
