/** What a Btrfs has accepted and not yet taken from what it reports as free. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPendingBytes } from "../../../src/engine/storage/btrfs-space.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const entry = (target: string, source: string, type = "btrfs") => ({
  root: "/",
  target,
  type,
  source,
  options: [],
});

/** Two file systems, as the kernel shows them: by their ids, with their devices. */
async function openKernelFolder() {
  const folder = await makeTempFolder();
  for (const [id, device, bytes] of [
    ["one", "dm-0", 5_000],
    ["two", "loop9", 70_000],
  ] as const) {
    const data = join(folder.path, id, "allocation/data");
    await mkdir(data, { recursive: true });
    await mkdir(join(folder.path, id, "devices", device), { recursive: true });
    await writeFile(join(data, "bytes_may_use"), `${bytes}\n`);
    await writeFile(join(data, "bytes_reserved"), "300\n");
  }
  return folder;
}

test.for([
  { what: "the mount that a folder is in counts", source: "/dev/loop9", bytes: 70_300 },
  { what: "another file system's does not", source: "/dev/dm-0", bytes: 5_300 },
  { what: "one that the kernel does not show is left out", source: "/dev/none", bytes: 0 },
])("$what", async ({ source, bytes }) => {
  await using kernel = await openKernelFolder();
  await using home = await makeTempFolder();
  const place = join(home.path, "s");
  await mkdir(place);
  const mounts = [entry("/", "/dev/dm-0"), entry(home.path, source), entry("/no", "/dev/dm-0")];
  const found = await readPendingBytes(place, {
    kernel: kernel.path,
    readMounts: async () => mounts,
  });
  expect(found).toBe(bytes);
});
