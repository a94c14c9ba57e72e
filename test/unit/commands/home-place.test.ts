/** A home that was moved keeps its sandboxes; a copy beside its original has none of them. */

import { cp, mkdir, readdir, realpath, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { settlePlace } from "../../../src/commands/home/home-place.ts";
import { openHome } from "../../../src/commands/home/home.ts";
import { holdLock } from "../../../src/engine/host/lock.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { SANDBOX } from "../../suites/store.ts";
import { RUNNING } from "../../support/engine/running-build.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const OWNER = "serve";
const INSTANCE = join("instances", OWNER);

function sandboxesOf(home: string): string[] {
  using store = openStore({ path: join(home, "state.db") });
  return store.sandboxes.ofOwner(OWNER).map(({ sandboxId }) => sandboxId);
}

async function makeHome(home: string): Promise<void> {
  await openHome(home);
  using store = openStore({ path: join(home, "state.db") });
  store.sandboxes.put({ ...SANDBOX, sandboxId: "i0", owner: OWNER });
  await mkdir(join(home, INSTANCE, "s/i0"), { recursive: true });
}

const look = async (home: string) => ({
  sandboxes: sandboxesOf(home),
  instances: await readdir(join(home, "instances")).catch(() => []),
});
const KEPT = { sandboxes: ["i0"], instances: [OWNER] };
const FORGOTTEN = { sandboxes: [], instances: [] };

test("one process at a time marks a home: in a draft of two an empty mark would be seen", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await mkdir(home);
  const lock = await holdLock(home, "instance");
  const opened = openHome(home);
  await Promise.race([opened, setTimeout(300)]);
  const names = await readdir(home);
  await lock[Symbol.asyncDispose]();
  await opened;
  expect(names.filter((name) => name.startsWith("place"))).toEqual([]);
  expect(await readdir(home)).toContain("place.json");
});

test("a home that was moved keeps its sandboxes", async () => {
  await using folder = await makeTempFolder();
  const [home, moved] = [join(folder.path, "home"), join(folder.path, "moved")];
  await makeHome(home);
  await rename(home, moved);
  await openHome(moved);
  expect(await look(moved)).toEqual(KEPT);
});

test("a copy beside its original has none of its sandboxes, once and for all", async () => {
  await using folder = await makeTempFolder();
  const [home, copy] = [join(folder.path, "home"), join(folder.path, "copy")];
  await makeHome(home);
  await cp(home, copy, { recursive: true });
  await openHome(copy);
  expect([await look(home), await look(copy)]).toEqual([KEPT, FORGOTTEN]);
  // What it makes from now on is its own, also while its original is opened again.
  await makeHome(copy);
  await openHome(home);
  await openHome(copy);
  expect([await look(home), await look(copy)]).toEqual([KEPT, KEPT]);
});

test("whoever opens such a copy first is told where the sandboxes are", async () => {
  await using folder = await makeTempFolder();
  const [home, copy] = [join(folder.path, "home"), join(folder.path, "copy")];
  await makeHome(home);
  {
    using store = openStore({ path: join(home, "state.db") });
    store.sandboxes.put({ ...SANDBOX, sandboxId: "i1", owner: OWNER, state: "paused" });
    store.sandboxes.put({ ...SANDBOX, sandboxId: "i2", owner: OWNER, state: "pooled" });
  }
  await cp(home, copy, { recursive: true });
  expect(await settlePlace(copy)).toBe(
    `this home is a copy of ${await realpath(home)}, and its 2 sandboxes stay with that one: ` +
      "to take sandboxes along, move a home, with no service running, instead of copying it",
  );
  expect(await settlePlace(copy)).toBeUndefined();
  await rm(copy, { recursive: true });
  await rename(home, copy);
  expect(await settlePlace(copy)).toBeUndefined();
});

test("a copy that took the place of its original has its sandboxes", async () => {
  await using folder = await makeTempFolder();
  const [home, copy] = [join(folder.path, "home"), join(folder.path, "copy")];
  await makeHome(home);
  await cp(home, copy, { recursive: true });
  await rm(home, { recursive: true });
  await openHome(copy);
  expect(await look(copy)).toEqual(KEPT);
});

function statusIn(home: string): string | undefined {
  using store = openStore({ path: join(home, "state.db") });
  return store.templateBuilds.get(RUNNING.buildId)?.status;
}

test("a build that ran when its home was copied is over in the copy", async () => {
  await using folder = await makeTempFolder();
  const [home, copy] = [join(folder.path, "home"), join(folder.path, "copy")];
  await makeHome(home);
  {
    using store = openStore({ path: join(home, "state.db") });
    store.templateBuilds.put(RUNNING);
  }
  await cp(home, copy, { recursive: true });
  await openHome(copy);
  expect([statusIn(home), statusIn(copy)]).toEqual(["building", "error"]);
});
