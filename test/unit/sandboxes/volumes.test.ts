/** Volumes that a service had no time to make. */

import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { startVolumeDisks } from "../../../src/sandboxes/volumes/volume-disks.ts";
import { finishVolumes } from "../../../src/sandboxes/volumes/volumes.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("one that cannot be made at a start is made later, and the others at once", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const volumesDirectory = join(home.path, "volumes");
  await mkdir(volumesDirectory);
  // Nothing can be made below a file.
  await writeFile(join(home.path, "volume-disks"), "");
  const facts = { team: "local", createdAtMs: 0, isBeingMade: true } as const;
  store.volumes.add({ ...facts, volumeId: "a", name: "broken", sizeMb: 64 });
  store.volumes.add({ ...facts, volumeId: "b", name: "plain" });
  store.volumes.add({ ...facts, volumeId: "c", name: "made" });
  await mkdir(join(volumesDirectory, "c"));
  const { signal: closing } = new AbortController();
  const log = pino({ level: "silent" });
  const parts = { store, closing, log, home: home.path };
  await using volumeDisks = startVolumeDisks({
    ...parts,
    clock: createSystemClock(),
    watches: { note: () => undefined },
  });
  const retried: string[] = [];
  const retry = (subject: string) => void retried.push(subject);
  await finishVolumes({ ...parts, retry, volumesDirectory, volumeDisks });
  expect(retried).toEqual(["volume broken"]);
  expect(await readdir(volumesDirectory)).toEqual(["b", "c"]);
  // The mark stays on what is still to be made.
  const marks = ["a", "b", "c"].map((volumeId) => store.volumes.get(volumeId)?.isBeingMade);
  expect(marks).toEqual([true, undefined, undefined]);
});
