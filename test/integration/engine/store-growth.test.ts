/** A store that grows: mounted or not, cut off half way, full, on a full disk, and what it cannot do. */

import { execFile } from "node:child_process";
import { readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { launcherCommand } from "../../../src/engine/host/launcher.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { growStore } from "../../../src/engine/storage/store-growth.ts";
import {
  openStoreImage,
  readStoreSpace,
  STORE_NAMES,
} from "../../../src/engine/storage/store-image.ts";
import { atStep } from "../../support/at-step.ts";
import { openImageDisk } from "../../support/faults/image-disk.ts";
import { GROWTH_STEPS } from "../../support/faults/store-growth.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
/** The log of a small store, and what the file system keeps for itself. */
const OWN_BYTES = 0.1 * GIB;

async function open(home: string, sizeGb?: number) {
  const store = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb });
  if (store === undefined) throw new Error("no store");
  return store;
}

/** Opens and closes it; returns the size that was told. */
async function sizeOf(home: string, sizeGb?: number) {
  await using store = await open(home, sizeGb);
  return store.size;
}

const imageOf = (home: string) => join(home, STORE_NAMES.image);
const fileOf = (home: string, name = "file") => join(home, STORE_NAMES.mount, name);

/** As every service of the home sees it, in whole GiB. */
async function spaceOf(home: string): Promise<number> {
  const { totalBytes = 0 } = (await readStoreSpace(join(home, "any"))) ?? {};
  return Math.floor((totalBytes + OWN_BYTES) / GIB);
}

/** Of a store that is not mounted. */
async function expectClean(home: string): Promise<void> {
  await run("xfs_repair", ["-n", imageOf(home)]);
}

test.skipIf(isRootless())(
  "a store grows whether it is mounted or not, and never becomes smaller",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    expect(await sizeOf(home, 1)).toEqual({ sizeGb: 1 });
    {
      await using first = await open(home, 2);
      expect(first.size).toEqual({ sizeGb: 2 });
      await writeFile(fileOf(home), "before");
      await using second = await open(home, 3);
      expect(second.size).toEqual({ sizeGb: 3 });
      expect(await spaceOf(home)).toBe(3);
      // More than it could take before.
      await run("fallocate", ["-l", String(2.5 * GIB), fileOf(home, "large")]);
      expect(await readFile(fileOf(home), "utf8")).toBe("before");
    }
    await expectClean(home);
    expect(await sizeOf(home, 1)).toEqual({ sizeGb: 3 });
    expect(await sizeOf(home)).toBeUndefined();
    expect((await stat(imageOf(home))).size).toBe(3 * GIB);
  },
);

test.skipIf(isRootless())("a growth to less than a store has leaves it as it is", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await using store = await open(home, 1);
  expect(store.size).toEqual({ sizeGb: 1 });
  const before = await readStoreSpace(join(home, "any"));
  // Another service has made it larger meanwhile. Linux 5.12 and later would make it smaller.
  const words = [imageOf(home), join(home, STORE_NAMES.mount), String(GIB - 16 * MIB)] as const;
  await runProgram(launcherCommand(PERL_DIRECTORY, [["grow", ...words], ["exit"]]));
  expect(await readStoreSpace(join(home, "any"))).toEqual(before);
});

test.skipIf(isRootless())("starts at once with different sizes leave the largest", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await sizeOf(home, 1);
  const asked = [2, 4, 3, 1];
  const stores = await Promise.all(asked.map(async (sizeGb) => open(home, sizeGb)));
  expect(stores.map(({ size }) => size?.fault)).toEqual(asked.map(() => undefined));
  const given = stores.map(({ size }) => size?.sizeGb ?? 0);
  expect(given.filter((sizeGb, index) => sizeGb < (asked[index] ?? 0))).toEqual([]);
  expect(await spaceOf(home)).toBe(4);
  for (const store of stores) await store[Symbol.asyncDispose]();
  await expectClean(home);
});

test.skipIf(isRootless())(
  "a store whose file was removed while it is mounted is refused",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using store = await open(home, 1);
    expect(store.size).toEqual({ sizeGb: 1 });
    await rm(imageOf(home));
    await expect(open(home, 1)).rejects.toMatchObject({
      code: "failed_precondition",
      message: expect.stringMatching(/is a store whose file was removed$/),
      hint: expect.stringMatching(/^umount /),
    });
    // Nothing was made in its place.
    await expect(stat(imageOf(home))).rejects.toMatchObject({ code: "ENOENT" });
  },
);

/** As `growStore` takes it. */
const storeOf = (home: string) => ({
  image: imageOf(home),
  mount: join(home, STORE_NAMES.mount),
  perlDirectory: PERL_DIRECTORY,
});

test.skipIf(isRootless())(
  "another file system, mounted over the store, does not grow instead",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using first = await open(home, 1);
    expect(first.size).toEqual({ sizeGb: 1 });
    const other = join(home, "other.img");
    await writeFile(other, "");
    await truncate(other, GIB);
    await run("mkfs.xfs", ["-q", "-K", other]);
    // Its device has space for more, as a volume that its administrator has extended.
    await truncate(other, 3 * GIB);
    const { mount } = storeOf(home);
    await run("mount", ["-o", "loop", other, mount]);
    try {
      expect(await growStore(storeOf(home), 2)).toMatchObject({
        sizeGb: 1,
        fault: { message: "the growth failed" },
      });
      expect((await stat(imageOf(home))).size).toBe(GIB);
      await expect(open(home, 2)).rejects.toMatchObject({
        message: `store was not mounted: another file system is mounted at ${mount}`,
        hint: `umount ${mount}`,
      });
    } finally {
      await run("umount", [mount]);
    }
    expect(await growStore(storeOf(home), 2)).toEqual({ sizeGb: 2 });
  },
);

test.skipIf(isRootless())(
  "a start does not wait for the whole of another one's growth",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await sizeOf(home, 1);
    const seen: number[] = [];
    using grown = atStep("store.grown", async () => {
      await using second = await open(home);
      expect(second.size).toBeUndefined();
      seen.push(await spaceOf(home));
    });
    expect(await sizeOf(home, 300)).toEqual({ sizeGb: 300 });
    expect([grown.wasReached, seen]).toEqual([true, [257]]);
  },
);

test("a store whose size cannot be read is used as it is", async () => {
  await using folder = await makeTempFolder();
  expect(await growStore(storeOf(folder.path), 2)).toMatchObject({
    sizeGb: undefined,
    fault: { code: "unavailable", message: "its size cannot be read" },
  });
});

/** Finds the device of a mounted store. */
async function deviceOf(home: string): Promise<string> {
  const { stdout } = await run("losetup", [
    "--noheadings",
    "--output",
    "NAME",
    "-j",
    imageOf(home),
  ]);
  return stdout.trim();
}

interface Cut {
  readonly after: string;
  readonly isMounted: boolean;
  readonly cut: (home: string) => Promise<unknown>;
}

const extendFile = async (home: string) => truncate(imageOf(home), 2 * GIB);

const CUTS: readonly Cut[] = [
  { after: "the file, unmounted", isMounted: false, cut: extendFile },
  { after: "the file, mounted", isMounted: true, cut: extendFile },
  {
    after: "the device",
    isMounted: true,
    cut: async (home) => {
      await extendFile(home);
      await run("losetup", ["--set-capacity", await deviceOf(home)]);
    },
  },
];

test.skipIf(isRootless()).for(CUTS)(
  "a growth that is cut off after $after leaves a store that opens, and is finished later",
  async ({ isMounted, cut }) => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    const first = await open(home, 1);
    if (!isMounted) await first[Symbol.asyncDispose]();
    await cut(home);
    if (isMounted) await first[Symbol.asyncDispose]();
    {
      // Without a size, and with the one that it has, it stays as it is.
      await using store = await open(home, 1);
      expect(store.size).toEqual({ sizeGb: 1 });
      await writeFile(fileOf(home), "kept");
    }
    expect(await sizeOf(home)).toBeUndefined();
    {
      await using store = await open(home, 2);
      expect(store.size).toEqual({ sizeGb: 2 });
      expect(await spaceOf(home)).toBe(2);
      expect(await readFile(fileOf(home), "utf8")).toBe("kept");
    }
    await expectClean(home);
  },
);

test.skipIf(isRootless())("a store without a free block grows", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await using first = await open(home, 1);
  expect(first.size).toEqual({ sizeGb: 1 });
  const { freeBytes = 0 } = (await readStoreSpace(join(home, "any"))) ?? {};
  await run("fallocate", ["-l", String(freeBytes - 8 * MIB), fileOf(home)]);
  const rest = ["if=/dev/zero", `of=${fileOf(home, "rest")}`, "bs=4096", "conv=fsync"];
  await expect(run("dd", rest)).rejects.toThrow("No space left on device");
  expect(await sizeOf(home, 2)).toEqual({ sizeGb: 2 });
  await run("dd", [...rest, "count=4096"]);
});

test.skipIf(isRootless())(
  "on a full disk a store keeps its size, until there is space",
  async () => {
    await using disk = await openImageDisk(256 * MIB, ["mkfs.ext4", "-q", "-F", "-m", "0"]);
    const home = disk.path;
    await sizeOf(home, 1);
    await expect(
      run("dd", ["if=/dev/zero", `of=${join(home, "ballast")}`, "bs=4096"]),
    ).rejects.toThrow("No space left on device");
    // Each of its many new groups needs blocks of the disk.
    const size = await sizeOf(home, 64);
    expect(size).toMatchObject({
      sizeGb: 1,
      fault: { code: "resource_exhausted", message: "the disk of the home is full" },
    });
    await expectClean(home);
    expect(await sizeOf(home, 1)).toEqual({ sizeGb: 1 });
    await rm(join(home, "ballast"));
    expect(await sizeOf(home, 64)).toEqual({ sizeGb: 64 });
    await expectClean(home);
  },
);

test.skipIf(isRootless())(
  "a size that the home or the store cannot have is told in plain words",
  async () => {
    // Files of an ext4 end at 16 TiB.
    await using disk = await openImageDisk(512 * MIB, ["mkfs.ext4", "-q", "-F"]);
    const home = disk.path;
    await sizeOf(home, 8);
    expect(await sizeOf(home, 20_000)).toMatchObject({
      sizeGb: 8,
      fault: {
        message: "the home takes no file of 20000 GiB",
        hint: "choose a smaller --store-gb",
      },
    });
    expect(await sizeOf(home, 1_048_576)).toMatchObject({
      sizeGb: 8,
      fault: { message: "the store can grow to 32768 GiB at most" },
    });
    expect((await stat(imageOf(home))).size).toBe(8 * GIB);
  },
);

test.skipIf(isRootless())("a store that an older mkfs.xfs made grows", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await writeFile(imageOf(home), "");
  await truncate(imageOf(home), 500 * MIB);
  const features = ["-m", "bigtime=0,inobtcount=0,rmapbt=0,reflink=1", "-i", "sparse=0"];
  await run("mkfs.xfs", ["-q", "-K", ...features, "-d", "agcount=3", imageOf(home)]);
  expect(await sizeOf(home, 1)).toEqual({ sizeGb: 1 });
  await expectClean(home);
});

/** Nothing reaches the disk of the home before the store asks for it. */
const LATE = { options: "loop,noauto_da_alloc,commit=300" };

test.skipIf(isRootless()).for(GROWTH_STEPS)(
  "a power cut at %s leaves a store that opens, and grows",
  async (name) => {
    await using disk = await openImageDisk(512 * MIB, ["mkfs.ext4", "-q", "-F"], LATE);
    const home = disk.path;
    await sizeOf(home, 1);
    {
      await using first = await open(home, 1);
      expect(first.size).toEqual({ sizeGb: 1 });
      await writeFile(fileOf(home), "kept", { flush: true });
      await run("sync", ["-f", home]);
      using cut = atStep(name, async () => disk.cut());
      // The disk is gone: whether it opens does not matter.
      const second = await open(home, 3).catch(() => undefined);
      expect(cut.wasReached).toBe(true);
      await disk.restore();
      await second?.[Symbol.asyncDispose]();
    }
    // A log that speaks of a larger XFS must find as large a file.
    expect((await stat(imageOf(home))).size).toBe(3 * GIB);
    await using store = await open(home, 3);
    expect(store.size).toEqual({ sizeGb: 3 });
    expect(await readFile(fileOf(home), "utf8")).toBe("kept");
  },
);
