/**
 * A home with a store: it is found mounted after a service was killed, used by every service of the
 * home, and unmounted by the last one; a service that is killed while it makes the store leaves a home
 * that works.
 */

import { execFile, spawn } from "node:child_process";
import { readlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { endChild } from "../../support/end-child.ts";
import { CLONES, KEPT, STORE_STEPS } from "../../support/faults/fault-cases.ts";
import { make, openFaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL, openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";
import { killAt } from "../../support/faults/kill-case.ts";
import { startProgram } from "../../support/program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const { isWhole, random } = faultRun();
const FLAGS = [...NO_POOL, "--store-gb", "24"];
const SETUP_LIMIT_MS = 120_000;

let stage: FaultStage;

beforeAll(async () => {
  stage = await openFaultStage(FLAGS);
}, SETUP_LIMIT_MS);

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

async function isMounted(home: string): Promise<boolean> {
  return (await takeCensus(home)).mounts.includes(join(home, "store"));
}

const cases = isWhole
  ? CLONES.flatMap((operation) => operation.steps.map((step) => ({ operation, step })))
  : CLONES.map((operation) => ({ operation, step: random.pick(operation.steps) }));

test.for(cases.map((one) => ({ ...one, title: `${one.operation.name} at ${one.step}` })))(
  "R2 killed in a store during $title",
  async (one) => {
    expect(await killAt(stage, one)).toBeGreaterThan(0);
  },
);

test("a killed service leaves the store mounted, and the next one goes on with its disks", async () => {
  const { home } = stage;
  const id = await make(home);
  await home.enter(id, KEPT.path, KEPT.text);
  const image = join(home.path, "instances/serve/s", id, "disk.img");
  const placed = resolve(dirname(image), await readlink(image));
  expect(placed).toBe(join(home.path, "store/disks", id, "disk.img"));
  await home.stop("SIGKILL");
  expect(await isMounted(home.path)).toBe(true);
  await home.start();
  expect(await home.enter(id, KEPT.path)).toMatchObject({ status: 200, body: KEPT.text });
  expect((await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" }))?.status).toBe(
    201,
  );
  await home.call("DELETE", `/sandboxes/${id}`);
  await stage.expectTruth();
});

test("another program of the home that ends leaves the store to those that use it", async () => {
  const { home } = stage;
  expect(await startProgram(["gc", "--home", home.path]).exited()).toBe(0);
  expect(await isMounted(home.path)).toBe(true);
  const id = await make(home);
  expect((await home.enter(id, "/health"))?.status).toBe(204);
});

test("a copy of the mount in another namespace keeps no new service out", async () => {
  await using home = await openFaultHome([...FLAGS, "--on-exit", "kill"]);
  await home.start();
  const words = ["--mount", "--propagation", "private", "sleep", "600"];
  const other = spawn("unshare", words, { stdio: "ignore" });
  try {
    const namespace = () => readlink(`/proc/${other.pid}/ns/mnt`);
    await expect.poll(namespace).not.toBe(await readlink("/proc/self/ns/mnt"));
    await home.stop("SIGTERM");
    expect(await isMounted(home.path)).toBe(false);
    await home.start();
    const id = await make(home);
    expect((await home.enter(id, "/health"))?.status).toBe(204);
    expect((await takeCensus(home.path)).loopDevices).toHaveLength(2);
    await home.stop("SIGTERM");
  } finally {
    await endChild(other);
  }
});

test("a copy beside its original has a store of its own", async () => {
  await using home = await openFaultHome([...FLAGS, "--on-exit", "kill"]);
  await home.start();
  const id = await make(home);
  await home.enter(id, KEPT.path, KEPT.text);
  await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
  await home.stop("SIGTERM");
  const place = await makeTempFolder();
  const { path } = place;
  await run("cp", ["-a", "--sparse=always", `${home.path}/.`, path]);
  await home.start();
  await using copy = await openFaultHome([...FLAGS, "--on-exit", "kill"], async () => place);
  await copy.start();
  for (const one of [home, copy]) {
    const made = await make(one, { templateID: "shot" });
    expect(await one.enter(made, KEPT.path)).toMatchObject({ body: KEPT.text });
    await one.enter(made, KEPT.path, path);
  }
  expect((await takeCensus(path)).mounts).toContain(join(path, "store"));
});

test.for(isWhole ? STORE_STEPS : [random.pick(STORE_STEPS)])(
  "killed while it makes the store, at %s; the last one that ends unmounts it",
  async (step) => {
    await using home = await openFaultHome([...FLAGS, "--on-exit", "kill"]);
    await home.plan({ step, action: "kill" });
    await expect(home.start()).rejects.toThrow(/ended before it listened/);
    expect(await home.takeHit()).toBe(true);
    await home.start();
    const id = await make(home);
    await home.enter(id, KEPT.path, KEPT.text);
    await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
    await home.stop("SIGTERM");
    expect(await isMounted(home.path)).toBe(false);
    // A program that was just started may have a copy of the mount for a moment.
    await expect.poll(async () => (await takeCensus(home.path)).loopDevices).toEqual([]);
    await home.start();
    const copy = await make(home, { templateID: "shot" });
    expect(await home.enter(copy, KEPT.path)).toMatchObject({ body: KEPT.text });
    await home.stop("SIGKILL");
    await startProgram(["gc", "--home", home.path]).exited();
    expect(await isMounted(home.path)).toBe(false);
  },
);
