/**
 * Templates whose start command runs in their memory: what is kept at a build, what creates begin
 * with, what they do without it, and what is removed.
 */

import { readdir } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { BuildPlan } from "../../src/sandboxes/template-builds/build-request.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { createMemoryEngine } from "../support/engine/memory-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const LIMIT_MS = 30_000;
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

interface World extends AsyncDisposable {
  readonly service: TestService;
  /** How often the start command ran. */
  starts(): Promise<number>;
  build(name: string, plan?: Partial<BuildPlan>): Promise<string>;
  images(): Promise<string[]>;
}

type Level = "userns-container" | "gvisor";

async function openWorld(
  engine = createMemoryEngine().engine,
  level: Level = "gvisor",
): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  const base = {
    name: "base",
    defaultUser: userInfo().username,
    defaultWorkdir: path,
    find: async () => [],
  };
  const report = { ...(await engine.probe()), level };
  const strong = { ...engine, probe: async () => report };
  const service = stack.use(await startTestService({ builtIns: [base], engine: strong }));
  const { builds } = service.embedded.sandboxes;
  return {
    service,
    starts: async () => (await readdir(path)).filter((name) => name.startsWith("start-")).length,
    images: async () => readdir(join(service.home, "memory")).catch(() => []),
    async build(name, plan = {}) {
      const { template, build } = builds.request({
        name,
        tags: [],
        cpus: undefined,
        memoryMb: undefined,
      });
      await builds.start(template.templateId, build.buildId, {
        from: { kind: "template", reference: "base" },
        force: false,
        steps: [{ type: "ENV", args: ["A", "1"], force: false }],
        startCommand: `touch ${path}/start-$(date +%s%N); exec sleep 1000`,
        readyCommand: `ls ${path}/start-*`,
        ...plan,
      });
      const state = () => builds.status(template.templateId, build.buildId, FILTER).build.status;
      await expect.poll(state, { timeout: LIMIT_MS }).not.toBe("building");
      expect(state()).toBe("ready");
      return build.buildId;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const create = async ({ service }: World, body: object = {}) =>
  service.call({ method: "POST", path: "/sandboxes", body: { templateID: "server", ...body } });

test("a create finds the start command running, and the build is the template's own", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine);
  await world.build("server");
  expect([await world.starts(), (await world.images()).length]).toEqual([1, 1]);
  const made = await create(world);
  expect([made.status, made.body]).toEqual([201, expect.objectContaining({ memory: true })]);
  expect(fake.specs.at(-1)?.memory).toContain("/memory/");
  expect(await world.starts()).toBe(1);
  const files = await create(world, { memory: false });
  expect(files.status).toBe(201);
  expect(fake.specs.at(-1)?.memory).toBe(undefined);
  await expect.poll(() => world.starts()).toBe(2);
});

test("where the memory does not come back, the start command runs", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine);
  await world.build("server");
  fake.failRestore();
  expect((await create(world)).status).toBe(201);
  await expect.poll(() => world.starts()).toBe(2);
  const listed = await world.service.call({ path: "/sandboxes" });
  expect(listed.body).toHaveLength(1);
});

test("memory that was not kept fails no build", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine);
  fake.failSave();
  await world.build("server");
  expect(await world.images()).toEqual([]);
  expect((await create(world)).status).toBe(201);
  await expect.poll(() => world.starts()).toBe(2);
});

test("an engine that saves no memory keeps none, and the start command runs", async () => {
  await using world = await openWorld(createLayerEngine());
  await world.build("server");
  expect(await world.images()).toEqual([]);
  expect((await create(world)).status).toBe(201);
  await expect.poll(() => world.starts()).toBe(2);
});

test("the memory goes with the next build and with the template; a sandbox keeps its own", async () => {
  await using world = await openWorld();
  await world.build("server");
  const [first] = await world.images();
  const made = await create(world);
  await world.build("server");
  expect(await world.images()).toHaveLength(2);
  expect(await world.images()).toContain(first);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a reply of create
  const { sandboxID } = made.body as { sandboxID: string };
  await world.service.call({ method: "DELETE", path: `/sandboxes/${sandboxID}` });
  await world.build("server");
  await expect.poll(async () => (await world.images()).length).toBe(1);
  expect(await world.images()).not.toContain(first);
  await world.service.call({ method: "DELETE", path: "/templates/server" });
  await expect.poll(() => world.images()).toEqual([]);
});

test("a template without commands has no memory", async () => {
  await using world = await openWorld();
  await world.build("server", { startCommand: "", readyCommand: "" });
  expect(await world.images()).toEqual([]);
});

test("a template asks for a kernel of its own, for its sandboxes and those made from it", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine, "userns-container");
  await world.build("server", { isolation: "gvisor" });
  expect(fake.specs.at(-1)?.isolation).toBe("gvisor");
  expect((await create(world)).body).toMatchObject({ memory: true });
  const files = await create(world, { memory: false });
  expect([files.status, fake.specs.at(-1)?.isolation]).toEqual([201, "gvisor"]);
  await world.build("derived", { from: { kind: "template", reference: "server" } });
  await create(world, { templateID: "derived", memory: false });
  expect(fake.specs.at(-1)?.isolation).toBe("gvisor");
});

test("where sandboxes share the kernel, a create that asks for no other has no memory", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine, "userns-container");
  await world.build("server");
  expect((await create(world)).status).toBe(201);
  expect(fake.specs.at(-1)?.memory).toBe(undefined);
  await expect.poll(() => world.starts()).toBe(2);
  await create(world, { isolation: "gvisor" });
  expect([fake.specs.at(-1)?.memory === undefined, await world.starts()]).toEqual([false, 2]);
});

test("a template of a snapshot has the files of that alone, also without a step that changes them", async () => {
  const fake = createMemoryEngine();
  await using world = await openWorld(fake.engine);
  const { service } = world;
  const { sandboxID } = await service.create();
  const path = `/sandboxes/${sandboxID}/snapshots`;
  const taken = await service.call({ method: "POST", path, body: { name: "warm" } });
  expect(taken.body).toMatchObject({ memory: true });
  const commands = { startCommand: undefined, readyCommand: undefined };
  await world.build("server", { from: { kind: "template", reference: "warm" }, ...commands });
  expect(await service.call({ method: "DELETE", path: "/templates/warm" })).toMatchObject({
    status: 204,
  });
  await expect.poll(() => world.images()).toEqual([]);
  expect((await create(world)).status).toBe(201);
  expect(fake.specs.at(-1)).not.toHaveProperty("memory");
});
