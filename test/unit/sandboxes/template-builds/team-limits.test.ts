/** What the templates of a team may take: a number, and disk; its cached steps are the first to go. */

import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { diskFullError } from "../../../../src/common/errors.ts";
import { createSilentLog } from "../../../../src/common/log.ts";
import { requireSpace } from "../../../../src/sandboxes/template-builds/free-space.ts";
import {
  forgetOldBuilds,
  removeOldBuilds,
} from "../../../../src/sandboxes/template-builds/old-builds.ts";
import {
  requireLayerSpace,
  requireTemplatePlace,
} from "../../../../src/sandboxes/template-builds/team-limits.ts";
import { newTemplate } from "../../../../src/sandboxes/templates/new-template.ts";
import type { TemplateBuildRecord } from "../../../../src/store/build-records.ts";
import { openStore } from "../../../../src/store/sqlite.ts";
import type { Store, TemplateRecord } from "../../../../src/store/store.ts";
import { READY_BUILD } from "../../../support/engine/build-record.ts";
import { createFakeClock } from "../../../support/fake-clock.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

function addTemplate(store: Store, team: string, name: string): TemplateRecord {
  const template = newTemplate(team, `${team}/${name}`, 0);
  store.templates.put(template);
  return template;
}

/** A build with one layer of its own above a built-in one. */
function addBuild(store: Store, templateId: string, createdAtMs: number): string {
  const id = `00000000-0000-4000-8000-${String(createdAtMs).padStart(12, "0")}`;
  const layers = [{ root: "base-1-a/root" }, { root: `${id}/root` }];
  store.builds.put({ ...READY_BUILD, buildId: id, templateId, createdAtMs, layers });
  return id;
}

function failTest(subject: string): never {
  return expect.fail(subject);
}

const WAITING_BUILD: TemplateBuildRecord = {
  buildId: "waiting",
  templateId: "",
  team: "mine",
  owner: "own",
  status: "waiting",
  tags: ["default"],
  createdAtMs: 0,
  updatedAtMs: 0,
  finishedAtMs: null,
  reason: null,
};

/** Each folder that is no built-in template has 100 bytes. */
const sizes = async (folders: readonly string[]) => folders.length * 100;

test("a team has at most a thousand templates, and those of others do not count", () => {
  using store = openStore({ path: ":memory:" });
  for (let index = 0; index < 999; index += 1) addTemplate(store, "mine", `t${index}`);
  for (let index = 0; index < 10; index += 1) addTemplate(store, "other", `t${index}`);
  requireTemplatePlace({ store, team: "mine" });
  addTemplate(store, "mine", "last");
  expect(() => requireTemplatePlace({ store, team: "mine" })).toThrow(
    expect.objectContaining({
      code: "resource_exhausted",
      message: "a team has at most 1000 templates: remove one to build another",
    }),
  );
  requireTemplatePlace({ store, team: "other" });
});

test("layers beyond the bound cost the oldest cached steps, and then the build", async () => {
  await using folder = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const template = addTemplate(store, "mine", "a");
  const other = addTemplate(store, "other", "a");
  const kept = addBuild(store, template.templateId, 1);
  addBuild(store, other.templateId, 2);
  const steps = [3, 4, 5, 6].map((atMs) => addBuild(store, "cache:mine", atMs));
  const foreign = addBuild(store, "cache:other", 7);
  for (const name of [kept, ...steps, foreign]) await mkdir(join(folder.path, name));
  const services = { log: createSilentLog(), retry: failTest };
  const context = { ...services, store, team: "mine", layersDirectory: folder.path };
  await requireLayerSpace(context, sizes, 500);
  expect(await readdir(folder.path)).toHaveLength(6);
  await requireLayerSpace(context, sizes, 350);
  expect((await readdir(folder.path)).toSorted()).toEqual([kept, ...steps.slice(2), foreign]);
  const refused = requireLayerSpace(context, sizes, 50);
  await expect(refused).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringContaining("remove templates to build others"),
  });
  expect((await readdir(folder.path)).toSorted()).toEqual([kept, foreign]);
});

test("on a full disk cached steps of all teams go, but those of a running build", async () => {
  await using folder = await makeTempFolder();
  await using home = await makeTempFolder();
  await mkdir(join(home.path, "uploads"));
  using store = openStore({ path: ":memory:" });
  const template = addTemplate(store, "mine", "a");
  const kept = addBuild(store, template.templateId, 1);
  const steps = [2, 3].map((atMs) => addBuild(store, "cache:mine", atMs));
  const foreign = addBuild(store, "cache:other", 4);
  const [held = ""] = steps;
  const running = { ...READY_BUILD, buildId: "running", templateId: template.templateId };
  const layers = store.builds.get(held)?.layers ?? [];
  store.builds.put({ ...running, status: "building", layers });
  for (const name of [kept, ...steps, foreign]) await mkdir(join(folder.path, name));
  const services = { log: createSilentLog(), retry: failTest, home: home.path };
  const places = { directory: "x", layersDirectory: folder.path };
  const context = { ...services, ...places, store, clock: createFakeClock(0) };
  const full = (most: number) => async () => {
    if ((await readdir(folder.path)).length > most) throw diskFullError("disk of x");
  };
  await requireSpace(context, undefined, full(4));
  expect(await readdir(folder.path)).toHaveLength(4);
  await requireSpace(context, undefined, full(3));
  expect((await readdir(folder.path)).toSorted()).toEqual([kept, held, foreign]);
  await expect(requireSpace(context, undefined, full(1))).rejects.toThrow("no space left");
  expect((await readdir(folder.path)).toSorted()).toEqual([kept, held]);
  store.builds.remove("running");
  await requireSpace(context, undefined, full(1));
  expect(await readdir(folder.path)).toEqual([kept]);
});

test("on a full disk archives go too, those of an hour once no build is open", async () => {
  await using folder = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const { templateId } = addTemplate(store, "mine", "a");
  const uploads = join(folder.path, "uploads");
  await mkdir(uploads);
  for (const name of ["new", "old"]) await writeFile(join(uploads, name), "");
  const clock = createFakeClock(Date.now() + 1_000);
  await utimes(join(uploads, "old"), 0, clock.now() / 1_000 - 3_601);
  const places = { home: folder.path, directory: "x", layersDirectory: folder.path };
  const context = { ...places, store, clock, log: createSilentLog(), retry: failTest };
  const full = async () => {
    if ((await readdir(uploads)).length > 0) throw diskFullError("disk of x");
  };
  store.templateBuilds.put({ ...WAITING_BUILD, templateId });
  await expect(requireSpace(context, undefined, full)).rejects.toThrow("no space left");
  expect(await readdir(uploads)).toEqual(["new"]);
  store.templateBuilds.put({ ...WAITING_BUILD, templateId, status: "error" });
  await requireSpace(context, undefined, full);
  expect(await readdir(uploads)).toEqual([]);
});

test("builds without a tag are kept while they are among the newest fifty", () => {
  using store = openStore({ path: ":memory:" });
  const { templateId } = addTemplate(store, "mine", "a");
  const ids = Array.from({ length: 53 }, (_, index) => addBuild(store, templateId, index));
  store.builds.tag({ templateId, tag: "first", buildId: ids[0] ?? "", createdAtMs: 0 });
  expect(forgetOldBuilds(store, templateId)).toEqual([ids[1], ids[2]]);
  const left = store.builds.ofTemplate(templateId).map(({ buildId }) => buildId);
  expect(left.toSorted()).toEqual([ids[0], ...ids.slice(3)]);
  expect(forgetOldBuilds(store, templateId)).toEqual([]);
});

test("nobody waits for the layers of replaced builds to be removed", async () => {
  await using folder = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const { templateId } = addTemplate(store, "mine", "a");
  const ids = Array.from({ length: 52 }, (_, index) => addBuild(store, templateId, index));
  for (const name of ids) await mkdir(join(folder.path, name));
  const works: ((signal: AbortSignal) => Promise<void>)[] = [];
  const cleanUpLater = (_subject: string, work: (typeof works)[number]) => void works.push(work);
  removeOldBuilds({ store, layersDirectory: folder.path, cleanUpLater }, templateId);
  expect(store.builds.ofTemplate(templateId)).toHaveLength(50);
  expect(await readdir(folder.path)).toHaveLength(52);
  const { signal } = new AbortController();
  for (const work of works) await work(signal);
  expect((await readdir(folder.path)).toSorted()).toEqual(ids.slice(2));
});
