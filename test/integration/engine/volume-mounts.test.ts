/** The disks of volumes that a process has mounted: each goes when nothing has used it for a while. */

import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startVolumeDisks } from "../../../src/sandboxes/volume-disks.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { DISKS, VOLUME_LEVELS, VOLUME_MB } from "../../support/volume-levels.ts";

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
