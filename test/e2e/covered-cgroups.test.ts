/** A machine, or a container on it, where a mount covers cgroup trees that stay in the mount table. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { PROGRAM } from "../support/program.ts";

const run = promisify(execFile);
/** Mounts the trees of the machine anew, on top of the old ones, and not all of them. */
const FUNCTIONS = resolve(import.meta.dirname, "../kubernetes/cluster/cgroups.sh");

test("trees that another mount covers are left out, and sandboxes are still limited", async () => {
  await using home = await openTestHome();
  const script = `. ${FUNCTIONS}; mount --make-rprivate /; mount_hierarchies; exec "$@"`;
  const doctor = [process.execPath, PROGRAM, "doctor", "--home", home.path];
  const words = ["--mount", "bash", "-c", script, "bash", ...doctor];
  const { stdout } = await run("unshare", words);
  expect(stdout).toMatch(/ok +cgroups: version [12]$/m);
  expect(stdout).toMatch(/started, limited, paused and resumed/);
  expect(stdout).toMatch(/^usable: /m);
});
