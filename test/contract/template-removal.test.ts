/** The removal of a snapshot: answered when its rows are gone, its files go after that. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { StepMessage } from "../../src/common/steps.ts";
import { newTemplate } from "../../src/sandboxes/templates/new-template.ts";
import { atStep } from "../support/at-step.ts";
import { READY_BUILD } from "../support/engine/build-record.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine() });
});
afterAll(() => service[Symbol.asyncDispose]());

const layers = async () => readdir(join(service.home, "layers"));

/** Does this at the step before the files go, until the work is over. */
async function whileRemoving(act: () => Promise<void>, work: () => Promise<void>): Promise<void> {
  const listen = (message: unknown) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the channel carries nothing else
    const step = message as StepMessage;
    if (step.name === "template.erased") step.hold = act();
  };
  subscribe("sandbox-mcp:step", listen);
  try {
    await work();
  } finally {
    unsubscribe("sandbox-mcp:step", listen);
  }
}

async function snapshot(name: string): Promise<void> {
  const { sandboxID } = await service.create();
  await service.embedded.sandboxes.snapshot(sandboxID, name);
  await service.embedded.sandboxes.kill(sandboxID);
}

const remove = async (name: string) =>
  (await service.call({ method: "DELETE", path: `/templates/${name}` })).status;

test("the reply does not wait for the files, which go afterwards", async () => {
  const before = await layers();
  await snapshot("large");
  const held = Promise.withResolvers<void>();
  await whileRemoving(
    async () => held.promise,
    async () => {
      expect(await remove("large")).toBe(204);
      expect((await service.call({ path: "/templates/large" })).status).toBe(404);
      expect((await service.call({ path: "/snapshots" })).body).toEqual([]);
      expect(await layers()).toHaveLength(before.length + 1);
      held.resolve();
      await expect.poll(layers).toEqual(before);
    },
  );
});

test("a tag that a template does not have removes nothing; one that it has, all of it", async () => {
  const before = await layers();
  await snapshot("tagged");
  await snapshot("tagged:v2");
  expect([await remove("tagged:nope"), await remove("local%2Ftagged%3Anope")]).toEqual([404, 404]);
  expect((await service.call({ path: "/templates/tagged/tags" })).body).toHaveLength(2);
  expect([await remove("tagged:v2"), await remove("tagged")]).toEqual([204, 404]);
  await expect.poll(layers).toEqual(before);
});

test("a template of an image goes with its layer, unless another one has it", async () => {
  const before = await layers();
  const { store } = service.embedded;
  const name = `image-${"0".repeat(32)}-1`;
  const root = join(name, "root");
  await mkdir(join(service.home, "layers", root), { recursive: true });
  for (const templateId of ["imageone", "imagetwo"]) {
    store.templates.put({ ...newTemplate("local", `local/${templateId}`, 0), templateId });
    store.builds.put({ ...READY_BUILD, buildId: templateId, templateId, layers: [{ root }] });
  }
  expect(await remove("imageone")).toBe(204);
  expect(await layers()).toContain(name);
  expect(await remove("imagetwo")).toBe(204);
  // Its files go after it has lost its name.
  await expect.poll(layers).toEqual(before);
});

test("two first snapshots of one name at once are of one template, and go with it", async () => {
  const before = { layers: await layers(), builds: service.embedded.store.builds.all().length };
  const first = await service.create();
  const { sandboxes, store } = service.embedded;
  // The second one is complete while the first one is being written.
  using held = atStep("snapshot.intent", () => snapshot("twin:two"));
  await sandboxes.snapshot(first.sandboxID, "twin:one");
  expect(held.wasReached).toBe(true);
  await sandboxes.kill(first.sandboxID);
  const { body } = await service.call({ path: "/templates/twin" });
  expect(body).toMatchObject({ builds: [{ status: "ready" }, { status: "ready" }] });
  expect(await remove("twin")).toBe(204);
  expect(store.builds.all()).toHaveLength(before.builds);
  await expect.poll(layers).toEqual(before.layers);
});

test("files that cannot be removed are tried again", async () => {
  const before = await layers();
  await snapshot("stubborn");
  let attempts = 0;
  const fail = async () => {
    attempts += 1;
    if (attempts < 2) throw new Error("the disk is away");
  };
  await whileRemoving(fail, async () => {
    expect(await remove("stubborn")).toBe(204);
    await expect.poll(layers, { timeout: 20_000 }).toEqual(before);
    expect(attempts).toBe(2);
  });
}, 30_000);
