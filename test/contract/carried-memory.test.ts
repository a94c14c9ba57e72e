/** Snapshots and forks whose programs go on: what is asked of the engine, said, kept and removed. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createMemoryEngine, type MemoryEngine } from "../support/engine/memory-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

let fake: MemoryEngine;
let service: TestService;
beforeAll(async () => {
  fake = createMemoryEngine();
  service = await startTestService({ engine: fake.engine });
});
afterAll(() => service[Symbol.asyncDispose]());

const post = async (path: string, body: unknown) => service.call({ method: "POST", path, body });
const remove = async (path: string) => (await service.call({ method: "DELETE", path })).status;

/** The images in the home; none at all before the first. */
async function images(): Promise<string[]> {
  return readdir(join(service.home, "memory")).catch(() => []);
}

test("a snapshot with memory: its sandboxes go on, and it goes with its template", async () => {
  const { sandboxID } = await service.create();
  const taken = await post(`/sandboxes/${sandboxID}/snapshots`, { name: "live" });
  expect([taken.status, taken.body]).toEqual([
    201,
    { snapshotID: "local/live:default", names: ["local/live"], memory: true },
  ]);
  const [image = ""] = await images();
  const copy = await post("/sandboxes", { templateID: "live" });
  expect([copy.status, copy.body]).toEqual([201, expect.objectContaining({ memory: true })]);
  expect(fake.specs.at(-1)).toMatchObject({
    isolation: "gvisor",
    memory: join(service.home, "memory", image),
  });
  const files = await post("/sandboxes", { templateID: "live", memory: false });
  expect(files.body).toMatchObject({ memory: false, memoryReason: "files alone were asked for" });
  expect(fake.specs.at(-1)).not.toHaveProperty("memory");
  for (const { body } of [copy, files]) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a reply of create
    expect(await remove(`/sandboxes/${(body as { sandboxID: string }).sandboxID}`)).toBe(204);
  }
  expect(await remove("/templates/live")).toBe(204);
  await expect.poll(images).toEqual([]);
});

test("memory that cannot be restored is refused with its word, and leaves nothing", async () => {
  const { sandboxID } = await service.create();
  await post(`/sandboxes/${sandboxID}/snapshots`, { name: "foreign" });
  const before = (await service.call({ path: "/sandboxes" })).body;
  fake.failRestore();
  const refused = await post("/sandboxes", { templateID: "foreign" });
  expect(refused).toMatchObject({
    status: 409,
    body: { code: 409, error_code: "sandbox_memory_not_restorable" },
  });
  expect((await service.call({ path: "/sandboxes" })).body).toEqual(before);
  expect(await remove("/templates/foreign")).toBe(204);
});

test("memory that could not be saved leaves a snapshot of files, and no half of an image", async () => {
  const { sandboxID } = await service.create();
  const before = await images();
  fake.failSave();
  const taken = await post(`/sandboxes/${sandboxID}/snapshots`, { name: "broken" });
  const files = { memory: false, memoryReason: "the memory could not be saved" };
  expect([taken.status, taken.body]).toEqual([201, expect.objectContaining(files)]);
  expect(await images()).toEqual(before);
  const copy = await post("/sandboxes", { templateID: "broken" });
  expect(copy.body).toMatchObject(files);
});

test("a daemon that is stopped would be stopped in each copy: files alone, and the reply says why", async () => {
  const { sandboxID } = await service.create();
  fake.silence(true);
  const taken = await post(`/sandboxes/${sandboxID}/snapshots`, { name: "stopped" });
  fake.silence(false);
  const files = { memory: false, memoryReason: "the daemon of the sandbox does not answer" };
  expect([taken.status, taken.body]).toEqual([201, expect.objectContaining(files)]);
  expect(await remove(`/sandboxes/${sandboxID}`)).toBe(204);
  expect(await remove("/templates/stopped")).toBe(204);
});

test("a key gets the same reply again, memory included", async () => {
  const { sandboxID } = await service.create();
  await post(`/sandboxes/${sandboxID}/snapshots`, { name: "keyed" });
  const call = {
    method: "POST",
    path: "/sandboxes",
    body: { templateID: "keyed" },
    headers: { "idempotency-key": "memory-1" },
  } as const;
  const first = await service.call(call);
  expect(first.body).toMatchObject({ memory: true });
  expect((await service.call(call)).body).toEqual(first.body);
});

test("forks go on, and their image is gone when they have started", async () => {
  const { sandboxID } = await service.create();
  const before = await images();
  const forked = await post(`/sandboxes/${sandboxID}/fork`, { count: 2 });
  const going = { sandbox: expect.objectContaining({ memory: true }) };
  expect([forked.status, forked.body]).toEqual([201, [going, going]]);
  for (const spec of fake.specs.slice(-2)) expect(spec.memory).toBeDefined();
  expect(await images()).toEqual(before);
});
