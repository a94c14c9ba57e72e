/** Turns at the disks of volumes: whoever removes many does not hold up a mount. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startVolumeDisks } from "../../../src/sandboxes/volumes/volume-disks.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const REMOVALS = 24;

function idOf(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

test("a mount waits for one removal, however many were asked for before it", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  await using disks = startVolumeDisks({
    home: home.path,
    store,
    clock: createFakeClock(),
    log: createSilentLog(),
    closing: new AbortController().signal,
    volumes: { sizeMb: 64, perlDirectory: PERL_DIRECTORY },
    watches: { note: () => undefined },
  });
  let removed = 0;
  const removals = Array.from({ length: REMOVALS }, async (_, number) => {
    await disks.remove(idOf(number));
    removed += 1;
  });
  // There is no such disk: it has its turn all the same.
  const mounted = await disks.mount([{ volumeId: idOf(REMOVALS), sizeMb: 64 }]).then(
    () => "mounted",
    () => "refused",
  );
  expect({ mounted, isBeforeMost: removed < REMOVALS / 2 }).toEqual({
    mounted: "refused",
    isBeforeMost: true,
  });
  await Promise.all(removals);
});
