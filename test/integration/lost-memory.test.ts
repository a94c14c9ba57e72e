/** A paused sandbox whose memory is given up: what is on record of it is what there is. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../src/store/sqlite.ts";
import { atStep } from "../support/at-step.ts";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { createMemoryEngine } from "../support/engine/memory-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const CONNECT = { timeout: 600 };

test("a halt that fails half way leaves one without memory, and its files start", async () => {
  const engine = createHeldEngine();
  await using service = await startTestService({ engine: engine.engine });
  const { sandboxID } = await service.create({ timeout: 3_600 });
  const path = `/sandboxes/${sandboxID}`;
  const connect = (body: object) =>
    service.call({ method: "POST", path: `${path}/connect`, body: { ...CONNECT, ...body } });
  await service.call({ method: "POST", path: `${path}/pause`, body: {} });
  using hold = engine.hold("halt");
  const connecting = connect({ memory: false });
  await hold.reached;
  hold.fail();
  expect((await connecting).status).toBe(503);
  expect((await service.call({ path })).body).toMatchObject({
    state: "paused",
    pauseMode: "filesystem",
  });
  expect((await connect({})).status).toBe(201);
  expect((await service.call({ path })).body).toMatchObject({ state: "running" });
});

async function startOnDisk() {
  const memory = createMemoryEngine();
  const clock = createFakeClock();
  const pauseToDisk = { afterSeconds: 0, isAtExit: false };
  const service = await startTestService({ clock, engine: memory.engine, pauseToDisk });
  const { sandboxID } = await service.create({ timeout: 3_600 });
  const path = `/sandboxes/${sandboxID}`;
  await service.call({ method: "POST", path: `${path}/pause`, body: {} });
  const look = async () => (await service.call({ path })).body;
  await expect.poll(look).toMatchObject({ pausedMemory: "disk" });
  return {
    memory,
    look,
    async bootFiles() {
      const body = { ...CONNECT, memory: false };
      return (await service.call({ method: "POST", path: `${path}/connect`, body })).status;
    },
    onRecord() {
      using store = openStore({ path: join(service.home, "state.db") });
      return store.sandboxes.get(sandboxID);
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

test("a start on the files of one with memory on disk says so before programs run", async () => {
  await using scene = await startOnDisk();
  let during: unknown;
  using started = atStep("boot.started", async () => {
    during = scene.onRecord();
  });
  expect(await scene.bootFiles()).toBe(201);
  expect(started.wasReached).toBe(true);
  expect(during).toMatchObject({ state: "paused", hasMemory: false });
  expect(scene.onRecord()).toMatchObject({ state: "running", hasMemory: true });
});

test("where such a start fails before programs run, the memory is still there", async () => {
  await using scene = await startOnDisk();
  scene.memory.failBoot();
  expect(await scene.bootFiles()).toBe(503);
  expect(scene.onRecord()).toMatchObject({ state: "paused", hasMemory: true });
  expect(await scene.look()).toMatchObject({ pauseMode: "full", pausedMemory: "disk" });
});

test("the same where the halt after it fails, too", async () => {
  await using scene = await startOnDisk();
  scene.memory.failBoot();
  scene.memory.failHalt();
  expect(await scene.bootFiles()).toBe(503);
  expect(scene.onRecord()).toMatchObject({ state: "paused", hasMemory: true });
});
