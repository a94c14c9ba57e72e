/** What disk images that other services of a home watch take of the disk that they share. */

import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { createBlankDisks } from "../../../src/engine/storage/blank-disk.ts";
import {
  DISK_NAMES,
  makeDisk,
  mountDisk,
  openDisk,
  unmountBelow,
} from "../../../src/engine/storage/disk.ts";
import { NO_OTHERS } from "../../../src/sandboxes/disks/disk-budget.ts";
import { notePromisedToOthers, readOtherImages } from "../../../src/sandboxes/other-images.ts";
import { containersDirectory } from "../../../src/sandboxes/reclaim/instance-folder.ts";
import { startVolumeDisks } from "../../../src/sandboxes/volumes/volume-disks.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { DISKS, VOLUME_LEVELS } from "../../support/control/volume-levels.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const MIB = 1024 ** 2;
const { signal } = new AbortController();

/** A container's disk of an instance, mounted. */
async function mountedDisk(home: string, instance: string, name: string) {
  const directory = join(containersDirectory(home, instance), name);
  await mkdir(directory, { recursive: true });
  const blanks = createBlankDisks(PERL_DIRECTORY);
  await makeDisk({ directory, place: undefined, sizeMb: 64, blanks, signal });
  await mountDisk(PERL_DIRECTORY, directory, signal);
  return { directory, [Symbol.asyncDispose]: () => unmountBelow(directory) };
}

test.runIf(VOLUME_LEVELS.includes(DISKS))(
  "disks of other instances count with what they were promised and granted",
  async () => {
    await using home = await makeTempFolder();
    using store = openStore({ path: ":memory:" });
    await using volumeDisks = startVolumeDisks({
      ...DISKS.options,
      home: home.path,
      store,
      clock: createFakeClock(),
      log: createSilentLog(),
      closing: signal,
      watches: { note: () => undefined },
    });
    const context = { home: home.path, store, volumeDisks };
    await using one = await mountedDisk(home.path, "one", "box");
    expect(await readOtherImages({ ...context, owner: "one" })).toEqual(NO_OTHERS);
    // Blocks that a program has and the host has not given: nothing is ever written back.
    await run("fallocate", ["-l", `${8 * MIB}`, join(one.directory, DISK_NAMES.mount, "file")]);
    await using two = await mountedDisk(home.path, "two", "box");
    expect(openDisk(two.directory)?.limitGrowth(4 * MIB)).toBe(true);
    const others = await readOtherImages({ ...context, owner: "me" });
    expect(others).toMatchObject({ services: 2, grantedBytes: 4 * MIB });
    expect(others.promisedBytes).toBeGreaterThan(7 * MIB);
    const seenByTwo = await readOtherImages({ ...context, owner: "two" });
    expect(seenByTwo).toMatchObject({ services: 1, grantedBytes: 0 });
    expect(seenByTwo.promisedBytes).toBeGreaterThan(7 * MIB);
    const noted: number[] = [];
    const copies = { notePromised: (bytes: number) => void noted.push(bytes) };
    await notePromisedToOthers({ ...context, owner: "me", copies });
    await notePromisedToOthers({ ...context, owner: "two", copies });
    expect(noted).toHaveLength(2);
    expect(Math.min(...noted)).toBeGreaterThan(7 * MIB);
  },
);
