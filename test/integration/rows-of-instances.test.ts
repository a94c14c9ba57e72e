/** Rows of instances of which the home has no folder: a clean-up forgets them, of all that died. */

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CleanUpFailure } from "../../src/common/clean-up.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { tryLock } from "../../src/engine/host/lock.ts";
import { containersDirectory } from "../../src/sandboxes/reclaim/instance-folder.ts";
import { reclaim } from "../../src/sandboxes/reclaim/reclaim.ts";
import { openStore } from "../../src/store/sqlite.ts";
import type { BuildRecord, Store } from "../../src/store/store.ts";
import { SANDBOX } from "../suites/store.ts";
import { createBareEngine } from "../support/engine/bare-engine.ts";
import { READY_BUILD } from "../support/engine/build-record.ts";
import { RUNNING } from "../support/engine/running-build.ts";
import { PERL_DIRECTORY } from "../support/perl-directory.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const clean = (home: string, store: Store, changes: Partial<Engine> = {}) =>
  reclaim({
    engine: {
      ...createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY }),
      ...changes,
    },
    store,
    home,
    self: "me",
    takesKept: false,
    onFailure: ({ error }: CleanUpFailure) => {
      throw error;
    },
  });

const BUILD: BuildRecord = {
  ...READY_BUILD,
  buildId: "snapshot",
  templateId: "none",
  owner: RUNNING.owner,
  status: "building",
  finishedAtMs: null,
};

test("builds of an instance that has neither folder nor sandbox are over", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  store.templateBuilds.put(RUNNING);
  store.builds.put(BUILD);
  const own = { ...RUNNING, buildId: "own", owner: "me" };
  store.templateBuilds.put(own);
  await clean(home.path, store);
  expect(store.builds.all()).toEqual([]);
  expect(store.templateBuilds.get(RUNNING.buildId)).toMatchObject({
    status: "error",
    reason: { message: "the service ended while the template was being built" },
  });
  expect(store.templateBuilds.get("own")).toEqual(own);
});

test("a sandbox whose folder has gone and whose row has not is removed all the same", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  store.sandboxes.put({ ...SANDBOX, owner: "0a1b2c3d" });
  mkdirSync(containersDirectory(home.path, "0a1b2c3d"), { recursive: true });
  const removed: string[] = [];
  const remove = async (id: string) => void removed.push(id);
  // A service that starts has it.
  await using lock = await tryLock(home.path, "instance");
  expect(lock).toBeDefined();
  await clean(home.path, store, { remove });
  expect([removed, store.sandboxes.ofOwner("0a1b2c3d")]).toEqual([[SANDBOX.sandboxId], []]);
});

test("an instance that starts during a clean-up keeps its rows", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const { sandboxes } = store;
  const owners = sandboxes.owners.bind(sandboxes);
  // The moment at which the rows are read: the instance has made its folder and its first row just now.
  const ownersAfterStart = () => {
    mkdirSync(containersDirectory(home.path, "new"), { recursive: true });
    sandboxes.put({ ...SANDBOX, owner: "new" });
    return owners();
  };
  await clean(home.path, { ...store, sandboxes: { ...sandboxes, owners: ownersAfterStart } });
  expect(sandboxes.ofOwner("new")).toHaveLength(1);
});

test("many builds are read in turns, and a layer that one took over meanwhile stays", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const layer = "ffffffff-0000-4000-8000-000000000000";
  const folder = join(home.path, "layers", layer);
  mkdirSync(folder, { recursive: true });
  const ready: BuildRecord = { ...BUILD, status: "ready", finishedAtMs: Date.now() };
  const taken = { ...ready, layers: [{ root: layer }] };
  store.builds.put({ ...taken, buildId: layer });
  for (let count = 0; count < 500; count += 1) store.builds.put({ ...ready, buildId: `b${count}` });
  const read = store.builds.after.bind(store.builds);
  let turns = 0;
  const after = (buildId: string, limit: number) => {
    const builds = read(buildId, limit);
    setImmediate(() => (turns += 1));
    if (buildId !== "") return builds;
    // Others have their turn: a snapshot of what stands on the layer, whose own build is removed.
    setImmediate(() => {
      store.builds.put({ ...taken, buildId: "a" });
      store.builds.remove(layer);
    });
    return builds;
  };
  await clean(home.path, { ...store, builds: { ...store.builds, after } });
  expect([turns, existsSync(folder)]).toEqual([3, true]);
});
