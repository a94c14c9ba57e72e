/** The disks of volumes that a process has mounted: each goes when nothing has used it for a while. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { listVolumeDisks, mountVolumeDisks } from "../../../src/engine/storage/volume-disk.ts";
import { startVolumeDisks } from "../../../src/sandboxes/volumes/volume-disks.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { DISKS, VOLUME_LEVELS, VOLUME_MB } from "../../support/control/volume-levels.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** What a volume is kept for after its last use. */
const IDLE_MS = 5_000;

test.runIf(VOLUME_LEVELS.includes(DISKS))(
  "unused volumes are unmounted after one that was removed while it was mounted",
  async () => {
    await using home = await makeTempFolder();
    using store = openStore({ path: ":memory:" });
    const clock = createFakeClock();
    const { signal } = new AbortController();
    await using disks = startVolumeDisks({
      ...DISKS.options,
      home: home.path,
      store,
      clock,
      log: createSilentLog(),
      closing: signal,
      watches: { note: () => undefined },
    });
    const removed = { volumeId: "removed", sizeMb: VOLUME_MB };
    const later = { volumeId: "later", sizeMb: VOLUME_MB };
    for (const volume of [removed, later]) await disks.make(volume, signal);
    const mounting = disks.mount([removed]);
    await nextTurn();
    await Promise.all([mounting, disks.remove(removed.volumeId)]);
    await disks.mount([later]);
    expect(disks.has(later.volumeId)).toBe(true);
    await clock.advance(IDLE_MS);
    await expect.poll(() => disks.has(later.volumeId)).toBe(false);
  },
);

test.runIf(VOLUME_LEVELS.includes(DISKS))(
  "a mount of a removed volume leaves nothing",
  async () => {
    await using home = await makeTempFolder();
    const disk = { volumeId: "removed", sizeMb: VOLUME_MB, owner: 0 };
    await mkdir(join(home.path, "volume-disks"));
    await expect(mountVolumeDisks(home.path, PERL_DIRECTORY, [disk])).rejects.toMatchObject({
      code: "unavailable",
    });
    expect(await listVolumeDisks(home.path)).toEqual([]);
  },
);
