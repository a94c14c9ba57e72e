/**
 * A home that is moved while no service runs: its sandboxes are where they were left. A copy of a home
 * beside it: its service does nothing to the sandboxes of the original.
 */

import { execFile } from "node:child_process";
import { mkdir, readdir, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { fateOf, KEPT } from "../../support/faults/fault-cases.ts";
import {
  findRemains,
  make,
  openFaultHome,
  type FaultHome,
} from "../../support/faults/fault-home.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { openTestHome } from "../../support/home.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Two services and four sandboxes, on a machine that does other work. */
const LIMIT_MS = 300_000;

async function makePaused(home: FaultHome, memory: boolean): Promise<string> {
  const id = await make(home);
  await home.enter(id, KEPT.path, KEPT.text);
  await home.call("POST", `/sandboxes/${id}/pause`, { memory });
  return id;
}

/** A running one, a frozen one and one that has its files alone. */
async function makeAll(home: FaultHome): Promise<string[]> {
  const running = await make(home);
  await home.enter(running, KEPT.path, KEPT.text);
  return [running, await makePaused(home, true), await makePaused(home, false)];
}

async function expectAll(home: FaultHome, ids: readonly string[]): Promise<void> {
  const fates = await Promise.all(ids.map(async (id) => fateOf(home, id)));
  expect(fates).toEqual(["running", "paused", "paused"]);
  for (const id of ids) {
    await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
    expect(await home.enter(id, KEPT.path)).toMatchObject({ status: 200, body: KEPT.text });
    expect(await home.call("DELETE", `/sandboxes/${id}`)).toMatchObject({ status: 204 });
  }
}

/** Opens a home that is there already, and removes it at the end. */
async function openAt(path: string): Promise<FaultHome> {
  const dispose = async () => rm(path, { recursive: true, force: true });
  return openFaultHome(NO_POOL, async () => ({ path, [Symbol.asyncDispose]: dispose }));
}

/** Opens a home that another test object removes. */
async function openKept(path: string): Promise<FaultHome> {
  return openFaultHome(NO_POOL, async () => ({
    path,
    [Symbol.asyncDispose]: async () => undefined,
  }));
}

/** What services only read is shared, which takes a fraction of the time. */
async function copyHome(source: string, target: string): Promise<void> {
  await mkdir(target);
  for (const name of await readdir(source)) {
    const how = ["layers", "daemon"].includes(name) ? "-al" : "-ax";
    const words = [how, join(source, name), join(target, name)];
    // A file that the service replaces at this moment may be missed, as in any copy of a living home.
    await promisify(execFile)("cp", words).catch(() => undefined);
  }
}

test("the sandboxes of a home that was moved go on", { timeout: LIMIT_MS }, async () => {
  await using before = await openFaultHome(NO_POOL);
  await before.start();
  const ids = await makeAll(before);
  await before.stop("SIGTERM");
  const path = `${before.path}-moved`;
  await rename(before.path, path);
  await using home = await openAt(path);
  await home.start();
  await expectAll(home, ids);
});

test("a copied home does nothing to sandboxes of its original", { timeout: LIMIT_MS }, async () => {
  await using original = await openFaultHome(NO_POOL);
  await original.start();
  const ids = await makeAll(original);
  const path = `${original.path}-copy`;
  await copyHome(original.path, path);
  {
    await using copy = await openAt(path);
    await copy.start();
    expect(await copy.call("GET", "/v2/sandboxes")).toMatchObject({ status: 200, body: [] });
    const own = await make(copy);
    expect(await copy.enter(own, "/health")).toMatchObject({ status: 204 });
    expect(await copy.call("DELETE", `/sandboxes/${own}`)).toMatchObject({ status: 204 });
  }
  await expectAll(original, ids);
});

test("a home by a link and by its path is one home", { timeout: LIMIT_MS }, async () => {
  await using folder = await openTestHome();
  await using places = await makeTempFolder();
  const link = join(places.path, "link");
  await symlink(folder.path, link);
  await using byLink = await openKept(link);
  await byLink.start();
  const ids = await makeAll(byLink);
  await byLink.stop("SIGTERM");
  await using byPath = await openKept(folder.path);
  await byPath.start();
  await expectAll(byPath, ids);
  await byPath.stop("SIGTERM");
  expect([...(await findRemains(byLink)), ...(await findRemains(byPath))]).toEqual([]);
});
