/** A pause at the timeout that fails for a moment: its sandbox is paused a moment later, not ended. */

import { expect, test } from "vitest";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const LIFE_SECONDS = 60;
const RETRY_MS = 1_000;
const MAX_RETRIES = 30;

async function startCase() {
  const clock = createFakeClock();
  const engine = createHeldEngine();
  const service = await startTestService({ engine: engine.engine, clock });
  const { sandboxID } = await service.create({ timeout: LIFE_SECONDS, autoPause: true });
  const look = () => service.call({ path: `/sandboxes/${sandboxID}` });
  return {
    clock,
    service,
    sandboxID,
    look,
    /** Comes to the moment of an attempt, and lets it fail. */
    async failAfter(ms: number): Promise<void> {
      using hold = engine.hold("pause");
      await clock.advance(ms);
      await hold.reached;
      hold.fail();
      // The attempt is over once the sandbox runs again, or is gone.
      await expect
        .poll(async () => (await look()).body)
        .toSatisfy((body) => body.code === 404 || clock.isAwaited(RETRY_MS));
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

test("it is paused by the next attempt", async () => {
  await using scene = await startCase();
  await scene.failAfter(LIFE_SECONDS * 1_000);
  expect(await scene.look()).toMatchObject({ status: 200, body: { state: "running" } });
  await scene.clock.advance(RETRY_MS);
  await expect
    .poll(scene.look)
    .toMatchObject({ body: { state: "paused", pauseReason: "timeout" } });
});

test("a clock that is set back does not put the next attempt off", async () => {
  await using scene = await startCase();
  await scene.failAfter(LIFE_SECONDS * 1_000);
  // The run began before that moment, so it stays as it is.
  scene.clock.set(scene.clock.now() - (LIFE_SECONDS / 2) * 1_000);
  await scene.clock.advance(RETRY_MS);
  await expect.poll(scene.look).toMatchObject({ body: { state: "paused" } });
});

test("a later timeout in between counts", async () => {
  await using scene = await startCase();
  await scene.failAfter(LIFE_SECONDS * 1_000);
  const path = `/sandboxes/${scene.sandboxID}/timeout`;
  const body = { timeout: LIFE_SECONDS };
  expect(await scene.service.call({ method: "POST", path, body })).toMatchObject({ status: 204 });
  await scene.clock.advance(LIFE_SECONDS * 1_000 - 1);
  expect(await scene.look()).toMatchObject({ body: { state: "running" } });
});

test("one that can never be paused ends", async () => {
  await using scene = await startCase();
  await scene.failAfter(LIFE_SECONDS * 1_000);
  for (let retry = 0; retry < MAX_RETRIES; retry += 1) await scene.failAfter(RETRY_MS);
  expect(await scene.look()).toMatchObject({ status: 404 });
});
