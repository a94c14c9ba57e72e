/** The set-up of a clone: what it takes for there. */

import { execFile } from "node:child_process";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
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

test("an installation of packages does not outlive a set-up that ends before it", async () => {
  await using folder = await makeTempFolder();
  const [npm, scripts] = [join(folder.path, "npm"), join(folder.path, "scripts")];
  await writeFile(npm, "#!/bin/sh\necho $$ > started\nsleep 1000 & wait\n");
  await chmod(npm, 0o755);
  await mkdir(scripts);
  const lacking =
    "has_helpers() { false; }; install_command() { echo 'until [ -s started ]; do :; done; false'; }";
  const text = await readFile(SETUP, "utf8");
  const script = join(scripts, "setup.sh");
  await writeFile(script, text.replace(/^begin_packages$/m, `${lacking}\nbegin_packages`));
  const env = { PATH: `${folder.path}:/usr/bin:/bin` };
  const ended = promisify(execFile)("bash", [script], { env });
  await expect(ended).rejects.toMatchObject({ code: 69 });
  const group = Number(await readFile(join(folder.path, "started"), "utf8"));
  await vi.waitFor(() => expect(() => process.kill(-group, 0)).toThrow("ESRCH"), 20_000);
});
