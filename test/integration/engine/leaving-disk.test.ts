/** A disk that another process unmounts while this one looks at it. */

import { execFileSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createBlankDisks } from "../../../src/engine/storage/blank-disk.ts";
import {
  DISK_NAMES,
  makeDisk,
  mountDisk,
  openDisk,
  unmountBelow,
} from "../../../src/engine/storage/disk.ts";
import { readLimit } from "../../../src/engine/storage/growing-disk.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { DISKS, VOLUME_LEVELS } from "../../support/volume-levels.ts";

const hooks = vi.hoisted(() => ({ beforeStatfs: (_path: string): void => undefined }));

vi.mock(import("node:fs"), async (importOriginal) => {
  const original = await importOriginal();
  const statfsSync = new Proxy(original.statfsSync, {
    apply(target, self, words: Parameters<typeof original.statfsSync>) {
      hooks.beforeStatfs(String(words[0]));
      return Reflect.apply(target, self, words);
    },
  });
  return { ...original, statfsSync };
});

const { signal } = new AbortController();

test.runIf(VOLUME_LEVELS.includes(DISKS))(
  "a disk that goes meanwhile does not have the numbers of the host's disk",
  async () => {
    await using folder = await makeTempFolder();
    const directory = join(folder.path, "box");
    await mkdir(directory);
    const blanks = createBlankDisks(PERL_DIRECTORY);
    await makeDisk({ directory, place: undefined, sizeMb: 64, blanks, signal });
    const [image, mount] = [join(directory, DISK_NAMES.image), join(directory, DISK_NAMES.mount)];
    const disk = openDisk(directory);
    onTestFinished(async () => unmountBelow(directory));
    const looks = [
      () => disk?.readGrowth(),
      () => disk?.limitGrowth(1024 ** 2),
      () => readLimit(image, mount),
    ];
    const seen: unknown[] = [];
    for (const look of looks) {
      await mountDisk(PERL_DIRECTORY, directory, signal);
      hooks.beforeStatfs = (path) => {
        if (path === mount) execFileSync("umount", [mount]);
      };
      seen.push(look());
      hooks.beforeStatfs = () => undefined;
    }
    expect(seen).toEqual([undefined, false, undefined]);
  },
);
