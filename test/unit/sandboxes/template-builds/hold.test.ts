/** What a build stands on stays, whatever another service of the home forgets. */

import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { forgetOldSteps } from "../../../../src/sandboxes/template-builds/cache.ts";
import { forgetOldestSteps } from "../../../../src/sandboxes/template-builds/free-space.ts";
import { holdCached, holdFound } from "../../../../src/sandboxes/template-builds/hold.ts";
import { newTemplate } from "../../../../src/sandboxes/templates/new-template.ts";
import type { TemplateBuildRecord } from "../../../../src/store/build-records.ts";
import { openStore } from "../../../../src/store/sqlite.ts";
import type { BuildRecord, Store } from "../../../../src/store/store.ts";
import { READY_BUILD } from "../../../support/engine/build-record.ts";
import { RUNNING } from "../../../support/engine/running-build.ts";
import { createFakeClock } from "../../../support/fake-clock.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

const STEP: BuildRecord = {
  ...READY_BUILD,
  buildId: "step",
  templateId: "cache:local",
  layers: [{ root: "base/root" }, { root: "step/root" }],
  cacheKey: "first",
};

const RECORD: TemplateBuildRecord = { ...RUNNING, buildId: "mine", owner: "serve" };
const HOLDER = { record: RECORD, template: newTemplate("local", "local/mine", 0) };

function contextOf(store: Store) {
  return { store, clock: createFakeClock(), owner: "serve" };
}

test("no other process can forget a step between its last look and its hold", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "state.db");
  using store = openStore({ path });
  store.builds.put(STEP);
  using other = new DatabaseSync(path, { timeout: 0 });
  const refusals: unknown[] = [];
  const builds = {
    ...store.builds,
    get(buildId: string) {
      const found = store.builds.get(buildId);
      try {
        other.exec("DELETE FROM builds WHERE build_id = 'step'");
      } catch (error) {
        refusals.push(error);
      }
      return found;
    },
  };
  const context = { ...contextOf({ ...store, builds }), layersDirectory: folder.path };
  const found = await holdCached(context, HOLDER, ["first", "second"]);
  expect(found).toMatchObject({ index: 0, build: { buildId: "step" } });
  expect(refusals).toHaveLength(1);
  expect(store.builds.get("mine")).toMatchObject({ status: "building", layers: STEP.layers });
  expect(store.builds.get("step")).toBeDefined();
});

test("a step that another process forgets while its layers are looked at is not held", async () => {
  await using folder = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  store.builds.put(STEP);
  const finding = holdCached({ ...contextOf(store), layersDirectory: folder.path }, HOLDER, [
    "first",
  ]);
  store.builds.remove("step");
  expect(await finding).toBeUndefined();
  expect(store.builds.get("mine")).toBeUndefined();
});

test("a build does not go on from a step whose layer has lost modes", async () => {
  await using folder = await makeTempFolder();
  const layersDirectory = folder.path;
  for (const name of ["base/root", "step/root", "next/root"]) {
    await mkdir(join(folder.path, name), { recursive: true });
    await chmod(join(folder.path, name), 0o755);
  }
  using store = openStore({ path: ":memory:" });
  store.builds.put(STEP);
  const layers = [...STEP.layers, { root: "next/root" }];
  store.builds.put({ ...STEP, buildId: "next", cacheKey: "second", layers });
  const context = { ...contextOf(store), layersDirectory };
  const find = async () => (await holdCached(context, HOLDER, ["first", "second"]))?.build.buildId;
  expect(await find()).toBe("next");
  await chmod(join(folder.path, "next/root"), 0o700);
  expect(await find()).toBe("step");
  expect(store.builds.get("mine")).toMatchObject({ status: "building", layers: STEP.layers });
  store.builds.put({ ...STEP, buildId: "mine", layers: [{ root: "own/root" }] });
  await chmod(join(folder.path, "step/root"), 0o700);
  expect(await find()).toBeUndefined();
  expect(store.builds.get("mine")?.layers).toEqual([{ root: "own/root" }]);
});

test("a build does not begin on a template that another process removed meanwhile", () => {
  using store = openStore({ path: ":memory:" });
  const context = contextOf(store);
  expect(() => holdFound(context, HOLDER, STEP)).toThrow(
    expect.objectContaining({ code: "not_found" }),
  );
  expect(store.builds.all()).toEqual([]);
  store.builds.put(STEP);
  holdFound(context, HOLDER, STEP);
  expect(store.builds.get("mine")).toMatchObject({ status: "building", layers: STEP.layers });
});

test("the memory of a snapshot is not held: it goes with the snapshot", () => {
  using store = openStore({ path: ":memory:" });
  const memory = { folder: "../memory/below", team: "local" };
  const below = { ...READY_BUILD, buildId: "below", layers: [{ root: "below/root" }], memory };
  store.builds.put(below);
  holdFound(contextOf(store), HOLDER, below);
  expect(store.builds.get("mine")?.layers).toEqual(below.layers);
  expect(store.builds.hasFolder("below")).toBe(true);
  store.builds.remove("below");
  expect(store.builds.hasFolder(memory.folder)).toBe(false);
});

const LONG_AFTER_MS = 30 * 24 * 3_600_000;

test("an old step keeps its row while a build holds it, so that its layers go with the row", () => {
  using store = openStore({ path: ":memory:" });
  store.builds.put(STEP);
  holdFound(contextOf(store), HOLDER, STEP);
  expect(forgetOldSteps(store, LONG_AFTER_MS)).toEqual([]);
  // The build made one layer of all steps.
  const held = store.builds.get("mine") ?? READY_BUILD;
  store.builds.put({
    ...held,
    status: "ready",
    layers: [{ root: "base/root" }, { root: "mine/root" }],
  });
  expect(forgetOldSteps(store, LONG_AFTER_MS)).toEqual(["step"]);
  expect(store.builds.get("step")).toBeUndefined();
});

test("held steps are found without reading the records of builds that are ready", () => {
  using store = openStore({ path: ":memory:" });
  const { templateId } = HOLDER.template;
  store.templates.put(HOLDER.template);
  // Of a later version: this one reads no such record.
  store.builds.put({ ...READY_BUILD, buildId: "kept", templateId, createdAtMs: Number.NaN });
  store.builds.put(STEP);
  const free = { ...STEP, buildId: "free", layers: [{ root: "base/root" }, { root: "free/root" }] };
  store.builds.put(free);
  holdFound(contextOf(store), HOLDER, STEP);
  expect(forgetOldestSteps(store, () => true)).toEqual({ steps: [free], folders: ["free"] });
});
