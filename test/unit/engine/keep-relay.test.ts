/** A relay that died is started again, and only for the run that it was of. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { keepRelay } from "../../../src/engine/gvisor/keep-relay.ts";
import { readStartTicks } from "../../../src/engine/host/process-stat.ts";
import { writeRecord } from "../../../src/engine/oci/container-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** In the place of the launcher: counts its starts. */
const LAUNCHER = `open my $count, '>>', $0 =~ s{[^/]*\\z}{count}r; print $count "started\\n";`;
const NO_CGROUPS = { unified: undefined, legacy: [], hasSwapLimit: false };

const dial = async () => {
  throw new Error("refused");
};

test("a container that was halted before its relay is started again gets none", async () => {
  await using folder = await makeTempFolder();
  const directory = folder.path;
  await writeFile(join(directory, "launcher.pl"), LAUNCHER);
  const startTicks = readStartTicks(process.pid) ?? "";
  const known = { id: "one", pid: process.pid, startTicks, idBase: 100_000, daemon: "daemon" };
  const running = { ...known, isHalted: false, level: "gvisor", secret: "secret" } as const;
  await writeRecord(directory, running);
  const place = { directory, perlDirectory: directory, daemons: directory };
  const reach = keepRelay({ ...place, cgroups: NO_CGROUPS });
  using clock = vi.spyOn(performance, "now").mockReturnValue(0);
  await expect(reach(dial)).rejects.toThrow("refused");
  // The next start waits for a second after that: for four from now on, which a busy machine needs.
  clock.mockReturnValue(-3_000);
  const again = reach(dial);
  await writeRecord(directory, { ...running, isHalted: true });
  await expect(again).rejects.toThrow("refused");
  expect(await readFile(join(directory, "count"), "utf8")).toBe("started\n");
});
