/** A file that is not written for a while is closed, and opened again as it was or not at all. */

import { copyFile, mkdir, readdir, readlink, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { openStored, toEnding } from "../../../src/output/stored-process.ts";
import { measureSpool } from "../../../src/spool/reader.ts";
import type { SpoolWriter } from "../../../src/spool/writer.ts";
import {
  createSpool,
  makeSpoolDisk,
  readSpool,
  SPOOL_KEY,
} from "../../support/daemon/spool-disk.ts";

const LIMITS = { fileBytes: 1_000, headBytes: 10_000, tailBytes: 10_000 };

/** The files below a folder that this process has open. */
async function openBelow(root: string): Promise<string[]> {
  const links = await Promise.allSettled(
    (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`)),
  );
  return links.flatMap((link) =>
    link.status === "fulfilled" && link.value.startsWith(root) ? [link.value] : [],
  );
}

async function parked(writer: SpoolWriter): Promise<string> {
  await writer.append("stdout", Buffer.from("before "));
  await writer.park();
  const [name = ""] = await readdir(writer.place.folder);
  return join(writer.place.folder, name);
}

test("a spool without output for a while has no file open, and goes on in the same file", async () => {
  await using disk = await makeSpoolDisk();
  const writer = createSpool(disk.start(), LIMITS);
  await writer.append("stdout", Buffer.from("before "));
  await writer.flush();
  expect(await openBelow(writer.place.folder)).toHaveLength(1);
  await expect
    .poll(() => openBelow(writer.place.folder), { timeout: 20_000, interval: 100 })
    .toEqual([]);
  await writer.append("stdout", Buffer.from("after"));
  await writer.close({ endedAtMs: disk.nowMs });
  expect((await readSpool(writer.place.folder)).toString()).toBe("before after");
  expect((await readdir(writer.place.folder)).toSorted()).toEqual(["0000000000000000", "end.json"]);
});

test.for([
  { name: "removed", replace: (path: string) => rm(path) },
  {
    name: "replaced",
    replace: async (path: string) => {
      await copyFile(path, `${path}.copy`);
      await rename(`${path}.copy`, path);
    },
  },
  {
    name: "a folder",
    replace: async (path: string) => {
      await rm(path);
      await mkdir(path);
    },
  },
])("a parked file that was $name is told as lost and not written", async ({ replace }) => {
  await using disk = await makeSpoolDisk();
  const writer = createSpool(disk.start(), LIMITS);
  const path = await parked(writer);
  await replace(path);
  await writer.append("stdout", Buffer.from("after"));
  await writer.flush();
  expect(writer.failure).toMatchObject({ position: 0 });
  await writer.close(undefined);
  expect(await openBelow(disk.root)).toEqual([]);
});

test("a parked file that is gone at the end is told as lost", async () => {
  await using disk = await makeSpoolDisk();
  const spools = disk.start();
  const writer = createSpool(spools, LIMITS);
  await rm(await parked(writer));
  const state = { kind: "ended", exitCode: 3, reason: "exit status 3" } as const;
  await writer.close(toEnding({ state, endedAtMs: disk.nowMs, isAttached: false }));
  expect(writer.failure).toMatchObject({ position: 0 });
  expect((await measureSpool(writer.place.folder)).end).toBe(0);
  const found = await spools.find(SPOOL_KEY);
  const stored = found && (await openStored({ spools, clock: createSystemClock(), found }));
  // How it ended is known, and how much is missing.
  expect([stored?.state, stored?.unwrittenBytes]).toEqual([state, "before ".length]);
});
