/** What gc takes away of the engine's own things and of built-in templates, and what it leaves. */

import { mkdir, readdir, rmdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BASE_PARTS } from "../../../src/commands/templates/base-layers.ts";
import { pruneBuiltIns } from "../../../src/commands/templates/built-ins.ts";
import type { CleanUpFailure } from "../../../src/common/clean-up.ts";
import { holdLock } from "../../../src/engine/host/lock.ts";
import { writeRecord } from "../../../src/engine/oci/container-record.ts";
import { removeDeadLayers } from "../../../src/engine/storage/layers.ts";
import { pruneDaemons, pruneProbes } from "../../../src/engine/storage/prune.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import type { BuildRecord, TemplateRecord } from "../../../src/store/store.ts";
import { SANDBOX } from "../../suites/store.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LONG_AGO = new Date("2001-01-01");
/** Above every number that the kernel gives to a process. */
const NOBODY = 2 ** 22 + 1;
const RECORD = { pid: 1, startTicks: "1", idBase: 1, level: "none", isHalted: false } as const;

const fail = ({ error }: CleanUpFailure) => {
  throw error;
};

async function makeOld(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  await utimes(path, LONG_AGO, LONG_AGO);
}

test("daemons that no container runs go, once they are old", async () => {
  await using home = await makeTempFolder();
  const daemons = join(home.path, "daemon");
  for (const name of ["current", "runs", "old", "draft.part"]) await makeOld(join(daemons, name));
  await mkdir(join(daemons, "young"));
  // As of a clock that was ahead.
  await mkdir(join(daemons, "ahead"));
  const future = new Date(Date.now() + 365 * 86_400_000);
  await utimes(join(daemons, "ahead"), future, future);
  const container = join(home.path, "container");
  await mkdir(container);
  await writeRecord(container, { ...RECORD, id: "one", daemon: "runs" });
  const starting = join(home.path, "starting");
  const removed = await pruneDaemons(join(daemons, "current"), [container, starting], fail);
  expect(removed.toSorted()).toEqual(["ahead", "draft.part", "old"]);
  expect((await readdir(daemons)).toSorted()).toEqual(["current", "runs", "young"]);
});

test("while a container runs an unknown daemon, every daemon stays", async () => {
  await using home = await makeTempFolder();
  const daemons = join(home.path, "daemon");
  for (const name of ["current", "old"]) await makeOld(join(daemons, name));
  await writeRecord(home.path, { ...RECORD, id: "one", daemon: "" });
  expect(await pruneDaemons(join(daemons, "current"), [home.path], fail)).toEqual([]);
});

test("containers of probes are dead when their process is, and while nobody probes", async () => {
  await using home = await makeTempFolder();
  const dead = `probe${NOBODY}x0123456789abcdef`;
  const remove = async (name: string) => rmdir(join(home.path, name));
  for (const name of [dead, `probe${process.pid}x0123456789abcdef`, "probes"]) {
    await mkdir(join(home.path, name));
  }
  // It may be a process of another container, whose number is not known here.
  const probing = await holdLock(home.path, "probe");
  expect(await pruneProbes(home.path, remove, fail)).toEqual([]);
  await probing[Symbol.asyncDispose]();
  expect(await pruneProbes(home.path, remove, fail)).toEqual([dead]);
});

test("drafts of dead builders of each built-in template go, those of living ones stay", async () => {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  const names = ["base", "host", "image", "interpreter"].map((name) => `${name}-1-0.aa.part`);
  for (const name of names) await mkdir(join(layers, name, "root"), { recursive: true });
  const building = await holdLock(home.path, "interpreter");
  expect(await removeDeadLayers(home.path, fail)).toEqual(names.slice(0, 3));
  await building[Symbol.asyncDispose]();
  expect(await removeDeadLayers(home.path, fail)).toEqual(names.slice(3));
  expect(await readdir(layers)).toEqual([]);
});

const BUILD: BuildRecord = {
  ...READY_BUILD,
  layers: [{ root: "base-1700000000002-00000000/root" }, { root: "snapshot/root" }],
};

test("older layers of built-in templates go unless a snapshot stands on them", async () => {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  const names = [
    "base-1700000000001",
    "base-1700000000002-00000000",
    "base-1700000000003-00000000",
    "host-1700000000001",
    "host-1700000000002",
    "snapshot",
  ];
  for (const name of names) await mkdir(join(layers, name, "root"), { recursive: true });
  await writeFile(join(layers, "base-1700000000001", "root", "file"), "");
  using store = openStore({ path: ":memory:" });
  store.builds.put(BUILD);
  const removed = await pruneBuiltIns(home.path, store, fail);
  expect(removed.toSorted()).toEqual(["base-1700000000001", "host-1700000000001"]);
  expect(await readdir(layers)).not.toContain("base-1700000000001");
});

const OLDER = "base-1700000000002-00000000";
const LAYERS = [{ root: `${OLDER}/root` }];
const TEMPLATE: TemplateRecord = {
  ...newTemplate("local", "one", 0),
  templateId: BUILD.templateId,
  name: null,
};

test.for([
  { of: "a snapshot that is a disk", kind: "snapshot", disk: { image: "disk.img", idBase: 1 } },
  { of: "a template without steps", kind: "template" },
] as const)("the layer of an older base stays below $of", async ({ kind, ...of }) => {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  for (const name of [OLDER, "base-1700000000003-00000000"]) {
    await mkdir(join(layers, name, "root"), { recursive: true });
  }
  using store = openStore({ path: ":memory:" });
  store.templates.put({ ...TEMPLATE, kind });
  store.builds.put({ ...BUILD, layers: LAYERS, ...("disk" in of && { disk: of.disk }) });
  expect(await pruneBuiltIns(home.path, store, fail)).toEqual([]);
});

test("an older build of a built-in holds its layers only for its sandboxes", async () => {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  for (const name of ["host-1700000000001-00000000", "host-1700000000002-00000000"]) {
    await mkdir(join(layers, name, "root"), { recursive: true });
  }
  using store = openStore({ path: ":memory:" });
  const older = "host-1700000000001-00000000";
  const skeleton = [{ root: `${older}/root`, usr: "/usr" }, { root: `${older}/over/root` }];
  store.templates.put({ ...TEMPLATE, kind: "built-in" });
  store.builds.put({ ...BUILD, layers: skeleton });
  store.sandboxes.put({ ...SANDBOX, buildId: BUILD.buildId });
  expect(await pruneBuiltIns(home.path, store, fail)).toEqual([]);
  store.sandboxes.remove(SANDBOX.sandboxId);
  expect(await pruneBuiltIns(home.path, store, fail)).toEqual([older]);
});

test.for(["base", "interpreter"])("of %s the newest build that is complete stays", async (kind) => {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  const [whole, newer] = [1, 2].map((number) => `${kind}-170000000000${number}-00000000`);
  for (const part of BASE_PARTS) {
    await mkdir(join(layers, whole ?? "", part), { recursive: true });
  }
  await mkdir(join(layers, newer ?? "", "root/usr/bin"), { recursive: true });
  using store = openStore({ path: ":memory:" });
  expect(await pruneBuiltIns(home.path, store, fail)).toEqual([newer]);
});
