/** Start and ready commands of a template: run before a sandbox is handed out, at every start. */

import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TemplateSetup } from "../../src/store/store.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

/** A service whose template `server` has these commands; they run in its folder. */
async function startServing(setup: Partial<TemplateSetup>, pooled = 0) {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  // Login shells read no files of this machine's user.
  const environment = { HOME: folder.path, ...setup.environment };
  const builtIn = {
    name: "server",
    defaultUser: userInfo().username,
    defaultWorkdir: folder.path,
    find: async () => [],
    setup: { startCommand: "", readyCommand: "", ...setup, environment },
  };
  const service = stack.use(
    await startTestService({
      builtIns: [builtIn],
      poolShares: [{ template: "server", size: pooled }],
    }),
  );
  return {
    service,
    folder: folder.path,
    read: (name: string) => readFile(join(folder.path, name), "utf8"),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function create(service: TestService) {
  return service.call({ method: "POST", path: "/v2/sandboxes", body: { templateID: "server" } });
}

const DELAYED = "sleep 0.2; echo $NAME >> starts; touch up; exec sleep 1000";

test("a create answers once the ready command has succeeded", async () => {
  await using world = await startServing({
    startCommand: DELAYED,
    readyCommand: "test -f up",
    environment: { NAME: "value" },
  });
  expect((await create(world.service)).status).toBe(201);
  expect(await world.read("starts")).toBe("value\n");
});

test("a boot from disk runs the commands again", async () => {
  await using world = await startServing({ startCommand: DELAYED, readyCommand: "rm up" });
  const { service } = world;
  const { sandboxID } = await service.create({ templateID: "server" });
  const path = `/sandboxes/${sandboxID}`;
  await service.call({ method: "POST", path: `${path}/pause`, body: { memory: false } });
  expect((await service.call({ method: "POST", path: `/v2${path}/connect` })).status).toBe(201);
  expect(await world.read("starts")).toBe("\n\n");
});

test("a start command that fails fails the create at once, and nothing is left", async () => {
  await using world = await startServing({ startCommand: "exit 3", readyCommand: "false" });
  const reply = await create(world.service);
  expect(reply).toMatchObject({
    status: 503,
    body: { message: "the template's start command ended with exit code 3" },
  });
  expect((await world.service.call({ path: "/v2/sandboxes" })).body).toEqual([]);
});

test("a start command that leaves a program in the background is no failure", async () => {
  await using world = await startServing({
    startCommand: "(sleep 0.2; touch up) >/dev/null 2>&1 &",
    readyCommand: "test -f up",
  });
  expect((await create(world.service)).status).toBe(201);
});

test("a pool runs the commands ahead of the create", async () => {
  await using world = await startServing({ startCommand: DELAYED, readyCommand: "rm up" }, 1);
  const { store, instance } = world.service.embedded;
  const pooled = () =>
    store.sandboxes.ofOwner(instance).flatMap((row) => (row.state === "pooled" ? row : []));
  const frozen = async () => (await world.read("starts").catch(() => "")).length;
  await expect.poll(frozen, { timeout: 10_000 }).toBe(1);
  const [warm] = pooled();
  // The row is there before the pool offers the sandbox.
  await expect.poll(() => world.read("up").catch(() => "gone")).toBe("gone");
  await expect
    .poll(async () => (await world.service.create({ templateID: "server" })).sandboxID)
    .toBe(warm?.sandboxId);
});

test("cpus and memory of a template hold for its sandboxes", async () => {
  await using world = await startServing({ cpus: 1, memoryMb: 256 });
  const { sandboxID } = await world.service.create({ templateID: "server" });
  expect((await world.service.call({ path: `/sandboxes/${sandboxID}` })).body).toMatchObject({
    cpuCount: 1,
    memoryMB: 256,
    diskSizeMB: 2048,
  });
  const size = expect.objectContaining({ cpuCount: 1, memoryMB: 256, diskSizeMB: 2048 });
  expect((await world.service.call({ path: "/templates" })).body).toContainEqual(size);
  expect((await world.service.call({ path: "/templates/server" })).body).toMatchObject({
    builds: [size],
  });
});
