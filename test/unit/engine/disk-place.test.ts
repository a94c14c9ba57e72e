/** Where the image of a disk lies, in a home that is moved, and what a copy of a home has of it. */

import { mkdir, readdir, realpath, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { DISK_NAMES, placeImage, removeDisk } from "../../../src/engine/storage/disk.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a disk in the store is found again in a home that was moved", async () => {
  await using folder = await makeTempFolder();
  const [home, moved] = [join(folder.path, "home"), join(folder.path, "moved")];
  const container = "instances/serve/s/i0";
  await mkdir(join(home, container), { recursive: true });
  const place = join(home, "store/disks");
  const image = await placeImage({ directory: join(home, container), place });
  await writeFile(image, "");
  await rename(home, moved);
  const found = await realpath(join(moved, container, DISK_NAMES.image));
  expect(found).toBe(join(await realpath(moved), "store/disks/i0", DISK_NAMES.image));
});

test.skipIf(isRootless())(
  "a copy of a mounted disk goes with the files in its folder",
  async () => {
    await using folder = await makeTempFolder();
    const mount = join(folder.path, DISK_NAMES.mount);
    // Of a removal that was killed.
    const draft = `${mount}.part`;
    for (const path of [mount, draft]) {
      await mkdir(join(path, "root/etc"), { recursive: true });
      await writeFile(join(path, "root/etc/hosts"), "");
    }
    await writeFile(join(folder.path, DISK_NAMES.image), "");
    await removeDisk(folder.path);
    expect(await readdir(folder.path)).toEqual([]);
    await removeDisk(folder.path);
  },
);
