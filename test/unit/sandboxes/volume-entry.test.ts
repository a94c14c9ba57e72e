/** What is said about a place of a volume that programs of sandboxes change meanwhile. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { toEntry, type VolumeEntry } from "../../../src/sandboxes/volumes/volume-entry.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LOOKS = 4_000;
/** renameat2 with RENAME_EXCHANGE, which Node lacks, until its input ends. */
const EXCHANGE = `
  my ($number, $a, $b) = ($ARGV[0] + 0, "link", "file");
  vec(my $input = "", 0, 1) = 1;
  until (select(my $ready = $input, undef, undef, 0)) {
    syscall($number, -100, $a, -100, $b, 2) == 0 or die $! for 1 .. 1000;
    if (!$told++) { $| = 1; print "begun\\n" }
  }`;

async function outcomeOf(looking: Promise<VolumeEntry>): Promise<string> {
  try {
    const { type, target, sizeBytes } = await looking;
    return `${type} ${target} ${sizeBytes}`;
  } catch (error) {
    return error instanceof SandboxError ? error.code : String(error);
  }
}

test("a place that is a link and a file by turns is always one of them", async () => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "file"), "12345");
  await symlink("elsewhere", join(folder.path, "link"));
  const number = process.arch === "arm64" ? "276" : "316";
  const swapper = spawn("perl", ["-e", EXCHANGE, number], { cwd: folder.path });
  onTestFinished(() => {
    swapper.kill();
  });
  const over = once(swapper, "exit");
  await once(swapper.stdout, "data");
  const seen = new Set<string>();
  for (let count = 0; count < LOOKS; count += 1) {
    const place = { name: "file", path: "/file", systemPath: join(folder.path, "file") };
    seen.add(await outcomeOf(toEntry(place)));
  }
  swapper.stdin.end();
  expect(await over).toEqual([0, null]);
  // Each of its looks may come at a link that is replaced by then.
  seen.delete("failed_precondition");
  expect([...seen].toSorted()).toEqual(["file undefined 5", "symlink elsewhere 9"]);
});
