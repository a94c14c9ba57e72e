/** The relay beside a sandbox with a kernel of its own, on a machine whose clock is set meanwhile. */

import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { startRelayWorld } from "../../support/daemon/relay-world.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

// The relay waits ten seconds for an answer.
vi.setConfig({ testTimeout: 40_000 });

const HOUR_S = 3_600;
const nothing = (): void => undefined;

/** The relay's programs, for which each reading of the wall clock is so much later than the last one. */
async function makePrograms(stepSeconds: number) {
  const folder = await makeTempFolder();
  for (const name of ["syscalls.pl", "sentry-links.pl"]) {
    await symlink(join(PERL_DIRECTORY, name), join(folder.path, name));
  }
  const relay = join(PERL_DIRECTORY, "sentry-relay.pl");
  const clock = `my $set = 0; *CORE::GLOBAL::time = sub () { CORE::time() + ($set += ${stepSeconds}) };`;
  const program = `BEGIN { ${clock} }\ndo '${relay}' or die $@ || $!;\n`;
  await writeFile(join(folder.path, "sentry-relay.pl"), program);
  return folder;
}

test("a clock that is set forward ends no wait", async () => {
  await using programs = await makePrograms(HOUR_S);
  await using world = await startRelayWorld((raw) => raw.resume(), programs.path);
  await world.holdPauses(true);
  const pausing = world.order("pause");
  await expect.poll(() => world.orders()).toEqual(["Pause"]);
  await world.holdPauses(false);
  expect(await pausing).toBe("paused\n");
});

test("a clock that is set back makes no wait longer", async () => {
  await using programs = await makePrograms(-HOUR_S);
  await using world = await startRelayWorld(nothing, programs.path);
  await world.holdPauses(true);
  expect(await world.order("pause")).toBe("failed\n");
  expect(await world.order("state")).toBe("running\n");
});
