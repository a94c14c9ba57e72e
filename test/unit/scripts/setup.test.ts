/** The set-up of a clone: what it takes for there. */

import { execFile } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SETUP = resolve(import.meta.dirname, "../../../scripts/setup.sh");
/** More than a pipe holds. */
const LONG_HELP = "another call\n".repeat(20_000);

test.for([
  { help: `port-forward\n${LONG_HELP}`, found: "yes" },
  { help: LONG_HELP, found: "no" },
])("a runsc is found by the calls that its help names, however long it is: $found", async (one) => {
  await using folder = await makeTempFolder();
  const runsc = join(folder.path, "runsc");
  await writeFile(runsc, `#!/bin/sh\ncat <<'TEXT'\n${one.help}\nTEXT\n`);
  await chmod(runsc, 0o755);
  const script = `set -euo pipefail; source <(grep '^has.*}$' "$1"); has_gvisor && echo yes || echo no`;
  const environment = { PATH: `${folder.path}:/usr/bin:/bin` };
  const words = ["-c", script, "bash", SETUP];
  const { stdout } = await promisify(execFile)("bash", words, { env: environment });
  expect(stdout).toBe(`${one.found}\n`);
});
