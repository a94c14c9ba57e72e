/** The store of a home on disks with sectors of other sizes, and of a home that came to such a disk. */

import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { z } from "../../../src/common/schema.ts";
import { openStoreImage, STORE_NAMES } from "../../../src/engine/storage/store-image.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const SIZE_GB = 1;

/** An ext4 on a disk with sectors of this size. */
async function mountedDisk(parent: string, sectorBytes: number) {
  const [image, path] = [join(parent, `${sectorBytes}.img`), join(parent, String(sectorBytes))];
  await mkdir(path);
  await run("truncate", ["-s", "2G", image]);
  const words = ["--find", "--show", "--sector-size", String(sectorBytes), image];
  const device = (await run("losetup", words)).stdout.trim();
  try {
    await run("mkfs.ext4", ["-q", "-F", device]);
    await run("mount", [device, path]);
  } finally {
    // It goes with its last user.
    await run("losetup", ["--detach", device]);
  }
  return { path, [Symbol.asyncDispose]: async () => void (await run("umount", [path])) };
}

/** Opens the store, writes a file into it and returns what the one before had. */
async function useStore(home: string, text: string, sizeGb = SIZE_GB): Promise<string> {
  const options = { home, perlDirectory: PERL_DIRECTORY, sizeGb };
  await using store = await openStoreImage(options);
  if (store === undefined) throw new Error("no store");
  expect(store.size).toEqual({ sizeGb });
  const file = join(home, STORE_NAMES.mount, "file");
  const before = await readFile(file, "utf8").catch(() => "");
  await writeFile(file, text, { flush: true });
  return before;
}

const imageOf = (home: string) => join(home, STORE_NAMES.image);

test.skipIf(isRootless())(
  "a store works and grows on a disk with sectors of 4 KiB, and moves between disks",
  { timeout: 60_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using small = await mountedDisk(folder.path, 512);
    await using large = await mountedDisk(folder.path, 4096);
    for (const [from, to] of [
      [small, large],
      [large, small],
    ] as const) {
      const [home, moved] = [join(from.path, "home"), join(to.path, "moved")];
      for (const path of [home, moved]) await mkdir(path);
      expect(await useStore(home, "kept")).toBe("");
      // Of its gigabyte the holes are most.
      await run("cp", ["--sparse=always", imageOf(home), imageOf(moved)]);
      expect(await useStore(moved, "grown", SIZE_GB + 1)).toBe("kept");
      expect(await useStore(home, "", SIZE_GB + 1)).toBe("kept");
      // It reads directly, in its own sectors, which the disk of the home may not take.
      const copy = join(folder.path, "copy.img");
      await run("cp", ["--sparse=always", imageOf(moved), copy]);
      await run("xfs_repair", ["-n", copy]);
      for (const path of [home, moved]) await rm(path, { recursive: true });
    }
  },
);

test.skipIf(isRootless())(
  "the command that a store with a fault is told for works on a disk with sectors of 4 KiB",
  { timeout: 60_000 },
  async () => {
    await using folder = await makeTempFolder();
    const place = join(folder.path, "it's a disk");
    await mkdir(place);
    await using small = await mountedDisk(place, 512);
    await using large = await mountedDisk(place, 4096);
    expect(await useStore(small.path, "kept")).toBe("");
    await run("cp", ["--sparse=always", imageOf(small.path), imageOf(large.path)]);
    for (const { path } of [small, large]) {
      const hint = await damage(imageOf(path));
      await run("sh", ["-c", hint]);
      expect((await run("losetup", ["-j", imageOf(path)])).stdout).toBe("");
      expect(await useStore(path, "")).toBe("kept");
    }
  },
);

/** Overwrites the first superblock; returns what the next start says to do. */
async function damage(image: string): Promise<string> {
  await run("dd", ["if=/dev/zero", `of=${image}`, "bs=512", "count=1", "conv=notrunc,fsync"]);
  const options = { home: dirname(image), perlDirectory: PERL_DIRECTORY, sizeGb: SIZE_GB };
  const fault: unknown = await openStoreImage(options).catch((error: unknown) => error);
  return z.object({ hint: z.string() }).parse(fault).hint;
}
