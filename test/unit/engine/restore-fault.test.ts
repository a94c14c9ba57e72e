/** Whether saved memory comes back, as a look at its note tells without a start. */

import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MEMORY_IMAGE, readPlace, sealImage } from "../../../src/engine/gvisor/memory-image.ts";
import { findRestoreFault } from "../../../src/engine/oci/container-memory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a look at saved memory tells why this service cannot bring it back", async () => {
  await using folder = await makeTempFolder();
  const { path } = folder;
  await mkdir(join(path, MEMORY_IMAGE));
  const place = await readPlace(process.execPath, "daemon-1");
  await sealImage(path, { ...place, secret: "s" }, 1_000);
  const now = {
    runtime: process.execPath,
    flags: [],
    carriesMemory: true,
    daemon: "/home/daemon/daemon-1",
    keys: { home: path, isOn: false },
  };
  const find = async (more: Partial<typeof now>) => findRestoreFault({ ...now, ...more }, path);
  expect(await find({})).toBe(undefined);
  const faults = [
    await find({ runtime: "/bin/sh" }),
    await find({ daemon: "/home/daemon/daemon-2" }),
    await find({ carriesMemory: false }),
  ];
  await rm(join(path, "memory.json"));
  faults.push(await find({}));
  expect(faults).toEqual([
    "memory cannot be restored: this runsc is another version",
    "memory cannot be restored: this service is another version",
    "memory cannot be restored: this runsc does not bring memory back",
    "memory cannot be restored: its image is damaged or gone",
  ]);
  // What is no answer of an image is none of this look either.
  await expect(find({ runtime: join(path, "none") })).rejects.toMatchObject({ code: "ENOENT" });
});

test("of one that was found without its runtime, that which is missing is the reason", async () => {
  await using folder = await makeTempFolder();
  const { path } = folder;
  const before = {
    runtime: process.execPath,
    flags: undefined,
    carriesMemory: undefined,
    daemon: "/home/daemon/daemon-1",
    keys: { home: path, isOn: false },
  };
  const fault = "memory cannot be restored: no runsc is installed";
  const look = async (find: (name: string) => string | undefined) =>
    findRestoreFault(before, path, find);
  expect(await look(() => undefined)).toBe(fault);
  expect(await look((name) => join(path, name))).toBe(undefined);
});
