/** A pause without memory that fails half way, as when a helper program cannot be started. */

import { expect, test } from "vitest";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const RETRY_MS = 1_000;
const MAX_RETRIES = 20;

async function startCase() {
  const clock = createFakeClock();
  const engine = createHeldEngine();
  const service = await startTestService({ engine: engine.engine, clock });
  const { sandboxID } = await service.create({ timeout: 3_600 });
  const path = `/sandboxes/${sandboxID}`;
  return {
    clock,
    look: () => service.call({ path }),
    pause: () => service.call({ method: "POST", path: `${path}/pause`, body: { memory: false } }),
    connect: () => service.call({ method: "POST", path: `${path}/connect`, body: { timeout: 60 } }),
    /** Lets the next attempt fail, which `begin` leads to. */
    async fail(begin: () => Promise<void>): Promise<void> {
      using hold = engine.hold("halt");
      await begin();
      await hold.reached;
      hold.fail();
      await expect.poll(() => clock.isAwaited(RETRY_MS)).toBe(true);
    },
    /** As `fail`, for the attempt after which none comes. */
    async failLast(): Promise<void> {
      using hold = engine.hold("halt");
      await clock.advance(RETRY_MS);
      await hold.reached;
      hold.fail();
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

test("the next attempt pauses it, and its files are there", async () => {
  await using scene = await startCase();
  let pausing: ReturnType<typeof scene.pause> | undefined;
  await scene.fail(async () => {
    pausing = scene.pause();
  });
  await scene.clock.advance(RETRY_MS);
  expect(await pausing).toMatchObject({ status: 204 });
  expect(await scene.look()).toMatchObject({ body: { state: "paused", pauseMode: "filesystem" } });
  expect(await scene.connect()).toMatchObject({ status: 201 });
});

test("one that can never be halted ends", async () => {
  await using scene = await startCase();
  let pausing: ReturnType<typeof scene.pause> | undefined;
  await scene.fail(async () => {
    pausing = scene.pause();
  });
  for (let retry = 1; retry < MAX_RETRIES; retry += 1) {
    await scene.fail(() => scene.clock.advance(RETRY_MS));
  }
  await scene.failLast();
  expect(await pausing).toMatchObject({ status: 503 });
  await expect.poll(scene.look).toMatchObject({ status: 404 });
});
