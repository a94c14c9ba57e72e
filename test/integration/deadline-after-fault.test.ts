/**
 * A change of which the record cannot be written, as on a full disk: for the guardian holds what held
 * before, as the sandbox is as before.
 */

import { expect, test } from "vitest";
import { SandboxError } from "../../src/common/errors.ts";
import type { Deadline, Engine } from "../../src/engine/engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const LIFE_S = 3_600;
const MS_PER_S = 1_000;

function fail(): never {
  throw new SandboxError("resource_exhausted", "database: no space left on the disk");
}

async function startCase() {
  const clock = createFakeClock();
  const layered = createLayerEngine();
  const deadlines: Deadline[] = [];
  const setDeadline = (deadline: Deadline) => void deadlines.push(deadline);
  let canFreeze = true;
  let canThaw = true;
  const engine: Engine = {
    ...layered,
    async create(spec, signal) {
      const container = await layered.create(spec, signal);
      const freeze = container.pause.bind(container);
      const pause = async () => (canFreeze ? freeze() : fail());
      const thaw = container.resume.bind(container);
      const resume = async () => (canThaw ? thaw() : fail());
      return Object.assign(container, { setDeadline, pause, resume });
    },
  };
  const service = await startTestService({ clock, engine });
  const { sandboxID } = await service.create({ timeout: LIFE_S });
  const { sandboxes } = service.embedded.store;
  const put = sandboxes.put.bind(sandboxes);
  return {
    endAtMs: clock.now() + LIFE_S * MS_PER_S,
    last: () => deadlines.at(-1),
    look: async () => (await service.call({ path: `/sandboxes/${sandboxID}` })).body,
    onRecord: () => sandboxes.get(sandboxID)?.state,
    pass: (ms: number) => clock.advance(ms),
    failFreezes: () => void (canFreeze = false),
    failThaws: (fails: boolean) => void (canThaw = !fails),
    enter: async () => (await service.enter({ sandboxID }, { path: "/health" })).status,
    restoreWrites: () => void Object.assign(sandboxes, { put }),
    call: (operation: string, body: object) =>
      service.call({ method: "POST", path: `/sandboxes/${sandboxID}/${operation}`, body }),
    /** No row is written from now on. */
    failWrites: () => void Object.assign(sandboxes, { put: fail }),
    async [Symbol.asyncDispose]() {
      Object.assign(sandboxes, { put });
      await service[Symbol.asyncDispose]();
    },
  };
}

test("a sandbox whose resume failed stays paused, without a service too", async () => {
  await using scene = await startCase();
  expect(await scene.call("pause", {})).toMatchObject({ status: 204 });
  expect(scene.last()).toEqual({ atMs: 0, action: "freeze" });
  scene.failWrites();
  expect(await scene.call("connect", { timeout: 60 })).toMatchObject({ status: 429 });
  expect(scene.last()).toEqual({ atMs: 0, action: "freeze" });
});

test("a resume that cannot be recorded and not be taken back has come about", async () => {
  await using scene = await startCase();
  await scene.call("pause", {});
  scene.failWrites();
  scene.failFreezes();
  expect(await scene.call("connect", { timeout: 60 })).toMatchObject({ status: 201 });
  expect(await scene.look()).toMatchObject({ state: "running" });
  expect(scene.onRecord()).toBe("paused");
  scene.restoreWrites();
  await scene.pass(1_000);
  await expect.poll(scene.onRecord).toBe("running");
});

test("a pause that cannot be recorded and not be taken back has come about", async () => {
  await using scene = await startCase();
  scene.failWrites();
  scene.failThaws(true);
  expect(await scene.call("pause", {})).toMatchObject({ status: 204 });
  expect(await scene.look()).toMatchObject({ state: "paused" });
  expect(scene.onRecord()).toBe("running");
  scene.restoreWrites();
  scene.failThaws(false);
  expect(await scene.call("connect", { timeout: 60 })).toMatchObject({ status: 201 });
  expect(await scene.enter()).toBe(204);
});

test("a sandbox that was not frozen answers, whatever its thaw says", async () => {
  await using scene = await startCase();
  scene.failFreezes();
  scene.failThaws(true);
  expect(await scene.call("pause", {})).toMatchObject({ status: 429 });
  expect(await scene.enter()).toBe(204);
});

test.for([
  { operation: "pause", body: {} },
  { operation: "timeout", body: { timeout: 60 } },
])("a sandbox lives as long as before after a $operation that failed", async (change) => {
  await using scene = await startCase();
  scene.failWrites();
  const reply = await scene.call(change.operation, change.body);
  expect(reply).toMatchObject({ status: 429 });
  expect(scene.last()).toEqual({ atMs: scene.endAtMs, action: "end" });
});
