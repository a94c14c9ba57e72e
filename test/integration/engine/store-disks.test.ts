/** Disks in the store of a home whose containers or volumes are gone. */

import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { CleanUpFailure } from "../../../src/common/clean-up.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import { openStoreImage } from "../../../src/engine/storage/store-image.ts";
import {
  createVolumeDiskMaker,
  mountVolumeDisks,
  unmountVolumeDisks,
} from "../../../src/engine/storage/volume-disk.ts";
import { containersDirectory } from "../../../src/sandboxes/reclaim/instance-folder.ts";
import { removeLostVolumeImages } from "../../../src/sandboxes/reclaim/lost-store-disks.ts";
import { reclaim } from "../../../src/sandboxes/reclaim/reclaim.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createBareEngine } from "../../support/engine/bare-engine.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const PROBE = "probe1x0123456789abcdef";

test.skipIf(isRootless())(
  "a disk in the store without a container goes at a clean-up",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
    expect(image).toBeDefined();
    const disks = join(home, "store/disks");
    for (const name of ["lost", "there", PROBE]) {
      await mkdir(join(disks, name), { recursive: true });
      await writeFile(join(disks, name, "disk.img"), "");
    }
    await mkdir(join(containersDirectory(home, "me"), "there"), { recursive: true });
    await mkdir(join(home, PROBE));
    using store = openStore({ path: ":memory:" });
    const removed = await reclaim({
      engine: createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY }),
      store,
      home,
      self: "me",
      takesKept: false,
      onFailure,
    });
    expect(removed).toEqual([{ kind: "sandbox", name: "lost" }]);
    expect((await readdir(disks)).toSorted()).toEqual([PROBE, "there"]);
  },
);

const onFailure = ({ error }: CleanUpFailure) => {
  throw error;
};
const volumeId = (digit: string) => `${digit.repeat(8)}-0000-4000-8000-000000000000`;

test.skipIf(isRootless())(
  "the image of a volume without row and folder goes at a clean-up",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
    expect(image).toBeDefined();
    const images = join(home, "store/volumes");
    const [lost, listed, making] = ["1", "2", "3"].map(volumeId);
    for (const id of [lost, listed, making]) {
      await mkdir(join(images, String(id)), { recursive: true });
      await writeFile(join(images, String(id), "disk.img"), "");
    }
    // Its service makes the folder of one that has a row at its next start.
    using store = openStore({ path: ":memory:" });
    const row = { name: "listed", team: "local", createdAtMs: 0, sizeMb: 64 };
    store.volumes.add({ ...row, volumeId: String(listed) });
    // Another service is making one that was removed meanwhile, or the other way round.
    const holds = join(home, "volume-disks", `${making}.part`);
    await mkdir(holds, { recursive: true });
    expect(await removeLostVolumeImages({ home, store, onFailure })).toEqual([lost]);
    expect((await readdir(images)).toSorted()).toEqual([listed, making]);
    await rm(holds, { recursive: true });
    expect(await removeLostVolumeImages({ home, store, onFailure })).toEqual([making]);
  },
);

test.skipIf(isRootless())("a store that cannot be read keeps nothing else", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
  expect(image).toBeDefined();
  await writeFile(join(home, "store/disks"), "");
  const engine = createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY });
  using store = openStore({ path: ":memory:" });
  const failures: CleanUpFailure[] = [];
  const removed = await reclaim({
    engine: { ...engine, prune: async () => ["daemon"] },
    store,
    home,
    self: "me",
    takesKept: false,
    onFailure: (failure: CleanUpFailure) => failures.push(failure),
  });
  expect(removed).toEqual([{ kind: "tool", name: "daemon" }]);
  expect(failures).toMatchObject([{ kind: "sandbox", name: "disks in the store" }]);
});

test.skipIf(isRootless())(
  "the disk of a volume is made where a power cut has left an image without its folder",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
    expect(image).toBeDefined();
    const id = volumeId("4");
    const left = join(home, "store/volumes", id, "disk.img");
    await mkdir(dirname(left), { recursive: true });
    await writeFile(left, "half of an image");
    const { signal } = new AbortController();
    const maker = createVolumeDiskMaker(home, PERL_DIRECTORY);
    const disk = { volumeId: id, sizeMb: 64, owner: 0 };
    await maker.make(disk, signal);
    const [hold] = await mountVolumeDisks(home, PERL_DIRECTORY, [disk]);
    await hold?.close();
    await unmountVolumeDisks(home, [id]);
    expect((await stat(left)).size).toBe(64 * 1024 ** 2);
  },
);
