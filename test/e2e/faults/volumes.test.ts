/**
 * Volumes with disks, in a service that is ended and killed: each is as large as it was made, what was
 * acknowledged is there, and no mount and no device is left over.
 */

import { rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { takeCensus } from "../../support/census.ts";
import { make, openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { openImageDisk } from "../../support/faults/image-disk.ts";
import { askVolume, volumeSchema, type VolumeAccess } from "../../support/faults/volume-access.ts";
import { startProgram } from "../../support/program.ts";

const FLAGS = [...NO_POOL, "--volume-mb", "64", "--memory-mb", "256"];
const { isWhole } = faultRun();
/** As many as a sandbox may have, in `npm run faults`. */
const MANY = isWhole ? 32 : 6;
const MIB = 1024 ** 2;
/** Unmounts come a few seconds after the last use. */
const POLL = { timeout: 30_000, interval: 100 } as const;
const LIMIT_MS = 120_000;

let home: FaultHome;

beforeEach(async () => {
  home = await openFaultHome(FLAGS);
  await home.start();
});

afterEach(() => home[Symbol.asyncDispose]());

async function createVolume(name: string): Promise<VolumeAccess> {
  return volumeSchema.parse((await home.call("POST", "/volumes", { name }))?.body);
}

async function makeWith(...names: readonly string[]): Promise<string> {
  const volumeMounts = names.map((name) => ({ name, path: `/data/${name}` }));
  return make(home, { volumeMounts });
}

/** Standard output of a command of root, also of one that fails. */
async function run(id: string, command: string): Promise<string> {
  const sandbox = await Sandbox.connect(id, home.client());
  return (await sandbox.commands.run(`(${command}) 2>&1; true`, { user: "root" })).stdout.trim();
}

function isVolume(path: string): boolean {
  return path.includes("/volume-disks/");
}

async function countVolumes(): Promise<{ mounts: number; devices: number }> {
  const { mounts, loopDevices } = await takeCensus(home.path);
  return {
    mounts: mounts.filter(isVolume).length,
    devices: loopDevices.filter(isVolume).length,
  };
}

const NONE = { mounts: 0, devices: 0 };
const ONE = { mounts: 1, devices: 1 };

test("a volume ends at its size, in a sandbox and for uploads", { timeout: LIMIT_MS }, async () => {
  const volume = await createVolume("small");
  const [first, second] = [await makeWith("small"), await makeWith("small")];
  const size = Number(await run(first, "df -BM --output=size /data/small | tail -1 | tr -dc 0-9"));
  expect(size).toBeGreaterThan(48);
  expect(size).toBeLessThanOrEqual(64);
  expect(await run(first, "dd if=/dev/zero of=/data/small/big bs=1M count=100")).toContain(
    "No space left on device",
  );
  expect(await run(second, "dd if=/dev/zero of=/data/small/other bs=1M count=8")).toContain(
    "No space left on device",
  );
  const body = Buffer.alloc(8 * MIB, "x");
  const refused = await askVolume(home, volume, { path: "up", body });
  expect(refused).toMatchObject({
    status: 507,
    text: expect.stringContaining("the volume of 64 MiB is full"),
  });
  // The disks of the sandboxes have their own.
  expect(await run(first, "dd if=/dev/zero of=/home/user/own bs=1M count=8")).toContain("8.0 MiB");
  await run(second, "rm /data/small/big /data/small/other");
  expect(await askVolume(home, volume, { path: "up", body })).toMatchObject({ status: 201 });
  expect(await run(first, "stat -c '%s %u' /data/small/up")).toBe(`${8 * MIB} 1000`);
  expect(await run(first, "cp /bin/echo /data/small/say && /data/small/say runs")).toBe("runs");
  // Neither the drafts of uploads nor other volumes are above its top.
  expect(await run(first, "ls -A /data/small /data/small/..")).not.toMatch(/drafts|lost\+found/);
});

test("a killed service leaves its volumes in use, and the next one goes on with them", async () => {
  const volume = await createVolume("kept");
  const id = await makeWith("kept");
  await run(id, "echo inside > /data/kept/inside; sync");
  expect(await askVolume(home, volume, { path: "up", body: "up" })).toMatchObject({ status: 201 });
  await home.stop("SIGKILL");
  expect(await countVolumes()).toEqual(ONE);
  await home.start();
  expect(await run(id, "cat /data/kept/up")).toBe("up");
  expect(await askVolume(home, volume, { path: "inside" })).toMatchObject({ text: "inside\n" });
  await run(id, "echo more > /data/kept/more");
  expect(await askVolume(home, volume, { path: "more" })).toMatchObject({ text: "more\n" });
  expect(await countVolumes()).toEqual(ONE);
  await home.call("DELETE", `/sandboxes/${id}`);
  await expect.poll(countVolumes, POLL).toEqual(NONE);
  const again = await makeWith("kept");
  expect(await run(again, "cat /data/kept/*")).toBe("inside\nmore\nup");
});

test("a service that ends leaves volumes to the sandboxes that go on, under one device", async () => {
  const volume = await createVolume("left");
  const id = await makeWith("left");
  await run(
    id,
    // Never half: a download of a file that is emptied meanwhile is cut.
    "(cd /data/left; while :; do date +%s%N > next; mv next now; sleep 0.05; done) > /dev/null 2>&1 & true",
  );
  await home.stop("SIGTERM");
  expect(await countVolumes()).toEqual({ mounts: 0, devices: 1 });
  await home.start();
  expect(await countVolumes()).toEqual(ONE);
  const now = async () => (await askVolume(home, volume, { path: "now" })).text;
  const before = await now();
  await expect.poll(now).not.toBe(before);
  await home.call("DELETE", `/sandboxes/${id}`);
  expect(await home.call("DELETE", `/volumes/${volume.volumeID}`)).toMatchObject({ status: 204 });
  await expect.poll(countVolumes, POLL).toEqual(NONE);
});

test("gc unmounts what a killed service left, and the content stays", async () => {
  const volume = await createVolume("found");
  await makeWith("found");
  await askVolume(home, volume, { path: "up", body: "up" });
  await home.stop("SIGKILL");
  expect(await startProgram(["gc", "--home", home.path]).exited()).toBe(0);
  await expect.poll(countVolumes, POLL).toEqual(NONE);
  await home.start();
  expect(await askVolume(home, volume, { path: "up" })).toEqual({ status: 200, text: "up" });
});

test("gc tells that last writes to a volume were not stored, and unmounts it", async () => {
  const volume = await createVolume("lost");
  await home.stop("SIGTERM");
  const folder = join(home.path, "volume-disks", volume.volumeID);
  await using small = await openImageDisk(24 * MIB, ["mkfs.ext4", "-q", "-F"]);
  const image = join(small.path, "disk.img");
  await runProgram(["cp", "--sparse=always", join(folder, "disk.img"), image]);
  await rm(join(folder, "disk.img"));
  await symlink(image, join(folder, "disk.img"));
  await home.start();
  expect(await askVolume(home, volume, { path: "up", body: "up" })).toMatchObject({ status: 201 });
  await home.stop("SIGKILL");
  await writeFile(join(folder, "disk", volume.volumeID, "more"), Buffer.alloc(32 * MIB, "x"));
  await using gc = startProgram(["gc", "--home", home.path]);
  expect(await gc.exited()).toBe(75);
  expect(gc.stderr()).toContain("last writes to volumes were not stored");
  expect(await countVolumes()).toEqual(NONE);
});

test("many volumes at once: each is there, and none is left", { timeout: LIMIT_MS }, async () => {
  const names = Array.from({ length: 2 * MANY }, (_none, index) => `volume-${index}`);
  await Promise.all(names.map(async (name) => createVolume(name)));
  const halves = [names.slice(0, MANY), names.slice(MANY)];
  const ids = await Promise.all(halves.map(async (half) => makeWith(...half)));
  for (const [index, id] of ids.entries()) {
    expect(
      await run(id, "for d in /data/*; do echo x > $d/file; done; ls -d /data/*/file | wc -l"),
    ).toBe(String(halves[index]?.length));
  }
  expect(await countVolumes()).toEqual({ mounts: 2 * MANY, devices: 2 * MANY });
  for (const id of ids) await home.call("DELETE", `/sandboxes/${id}`);
  await expect.poll(countVolumes, POLL).toEqual(NONE);
});
