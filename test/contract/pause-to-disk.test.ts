/** When the memory of a paused sandbox moves to disk, and what is answered about it. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { PLAIN_CREATE } from "../support/control/plain-create.ts";
import { createMemoryEngine, type MemoryEngine } from "../support/engine/memory-engine.ts";
import { createFakeClock, type FakeClock } from "../support/fake-clock.ts";
import { startTestService, type TestService } from "../support/service.ts";

const AFTER_MS = 60_000;

interface World extends AsyncDisposable {
  readonly clock: FakeClock;
  readonly fake: MemoryEngine;
  readonly service: TestService;
  readonly id: string;
  post(operation: string, body?: object): Promise<number>;
  /** `process` or `disk`; undefined for one that runs. */
  place(): Promise<unknown>;
}

async function openWorld(afterSeconds?: number): Promise<World> {
  const clock = createFakeClock();
  const fake = createMemoryEngine();
  const pauseToDisk = { afterSeconds, isAtExit: false };
  const service = await startTestService({ clock, engine: fake.engine, pauseToDisk });
  const { sandboxID: id } = await service.create({ timeout: 3600 });
  const path = `/sandboxes/${id}`;
  return {
    clock,
    fake,
    service,
    id,
    post: async (operation, body = {}) =>
      (await service.call({ method: "POST", path: `${path}/${operation}`, body })).status,
    place: async () => {
      const { body } = await service.call({ path });
      return typeof body === "object" && body !== null && "pausedMemory" in body
        ? body.pausedMemory
        : undefined;
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  };
}

test("it stays in the process until its time, then moves, and comes back", async () => {
  await using world = await openWorld(AFTER_MS / 1000);
  expect(await world.post("pause")).toBe(204);
  await world.clock.advance(AFTER_MS - 1);
  expect(await world.place()).toBe("process");
  await world.clock.advance(1);
  await expect.poll(() => world.place()).toBe("disk");
  expect(await world.post("pause")).toBe(409);
  expect(await world.post("connect", { timeout: 600 })).toBe(201);
  expect(await world.place()).toBe(undefined);
  const saved = join("s", world.id, "saved");
  expect(world.fake.specs.at(-1)?.memory).toContain(saved);
});

test("a clock that was set back does not put it off for as long", async () => {
  const [dayMs, lookMs] = [86_400_000, 30_000];
  await using world = await openWorld(AFTER_MS / 1000);
  world.clock.set(world.clock.now() + dayMs);
  expect(await world.post("pause")).toBe(204);
  world.clock.set(world.clock.now() - dayMs);
  // A step of the clock is noticed within this time.
  await world.clock.advance(lookMs);
  await world.clock.advance(AFTER_MS);
  await expect.poll(() => world.place()).toBe("disk");
});

test("a sandbox that runs again by then is left alone", async () => {
  await using world = await openWorld(AFTER_MS / 1000);
  await world.post("pause");
  await world.clock.advance(AFTER_MS / 2);
  await world.post("connect", { timeout: 600 });
  await world.clock.advance(AFTER_MS);
  expect(await world.place()).toBe(undefined);
  await world.post("pause");
  await world.clock.advance(AFTER_MS - 1);
  expect(await world.place()).toBe("process");
});

test("a move that fails is noted in the log and tried again", async () => {
  await using world = await openWorld(0);
  world.fake.failSave();
  await world.post("pause");
  const logs = async () => (await world.service.call({ path: `/sandboxes/${world.id}/logs` })).text;
  await expect.poll(logs).toContain("Memory could not be moved to disk");
  expect(await world.place()).toBe("process");
  await world.clock.advance(1_000);
  await expect.poll(() => world.place()).toBe("disk");
  await expect.poll(logs).toContain("Memory moved to disk");
});

test("a clock that was set back does not put off a move that is tried again", async () => {
  await using world = await openWorld(0);
  world.fake.failSave();
  await world.post("pause");
  const logs = async () => (await world.service.call({ path: `/sandboxes/${world.id}/logs` })).text;
  await expect.poll(logs).toContain("Memory could not be moved to disk");
  world.clock.set(world.clock.now() - 86_400_000);
  // A step of the clock is noticed within this time, and the moment of the pause is looked at again.
  for (let look = 0; look < 2; look += 1) await world.clock.advance(30_000);
  await expect.poll(() => world.place()).toBe("disk");
});

/** Pauses a new sandbox of a team; returns whether its memory is on disk. */
async function pauseOne({ service }: World, team: string): Promise<() => boolean> {
  const sandboxes = service.embedded.sandboxes.of(team);
  const { signal } = new AbortController();
  const { sandboxId } = await sandboxes.create(PLAIN_CREATE, signal);
  await sandboxes.pause(sandboxId, true);
  return () => sandboxes.get(sandboxId).isOnDisk === true;
}

test("moves that take long keep no other team waiting", async () => {
  await using world = await openWorld(0);
  const held = 4;
  using saves = world.fake.holdSaves(held);
  const slow: (() => boolean)[] = [];
  for (let count = 0; count < held + 1; count += 1) slow.push(await pauseOne(world, "slow"));
  const other = await pauseOne(world, "others");
  const look = async () => {
    await world.clock.advance(10_000);
    return other();
  };
  await expect.poll(look).toBe(true);
  expect(slow.map((isMoved) => isMoved())).toEqual(slow.map(() => false));
  saves[Symbol.dispose]();
  await expect.poll(() => slow.every((isMoved) => isMoved())).toBe(true);
});

test("what cannot be restored is told, refused and stays, and files alone start", async () => {
  await using world = await openWorld(0);
  await world.post("pause");
  await expect.poll(() => world.place()).toBe("disk");
  const detail = async () => (await world.service.call({ path: `/sandboxes/${world.id}` })).body;
  expect(await detail()).not.toHaveProperty("pausedMemoryFault");
  world.fake.failRestore();
  // The process of the sandbox may be ending still.
  await expect.poll(detail).toMatchObject({
    pausedMemory: "disk",
    pausedMemoryFault: "memory cannot be restored: this runsc is another version",
  });
  const path = `/sandboxes/${world.id}/connect`;
  const refused = await world.service.call({ method: "POST", path, body: { timeout: 600 } });
  expect(refused).toMatchObject({
    status: 409,
    body: { error_code: "sandbox_memory_not_restorable" },
  });
  expect(refused.headers["should-retry"]).toBe("false");
  expect(await world.place()).toBe("disk");
  expect(await world.post("connect", { timeout: 600, memory: false })).toBe(201);
  expect(world.fake.specs.at(-1)).not.toHaveProperty("memory");
  expect(await detail()).not.toHaveProperty("pausedMemoryFault");
});

test("a look at the image that fails says nothing of the memory", async () => {
  await using world = await openWorld(0);
  await world.post("pause");
  world.fake.failRestore();
  const look = async () => world.service.call({ path: `/sandboxes/${world.id}` });
  await expect.poll(look).toHaveProperty("body.pausedMemoryFault");
  world.fake.failLook();
  const reply = await look();
  expect(reply).toMatchObject({ status: 200, body: { pausedMemory: "disk" } });
  expect(reply.body).not.toHaveProperty("pausedMemoryFault");
});

test.for([
  { title: "never asked for", afterSeconds: undefined, body: {} },
  { title: "paused without memory", afterSeconds: 0, body: { memory: false } },
])("$title: nothing moves", async ({ afterSeconds, body }) => {
  await using world = await openWorld(afterSeconds);
  await world.post("pause", body);
  await world.clock.advance(AFTER_MS);
  expect(await world.place()).not.toBe("disk");
});
