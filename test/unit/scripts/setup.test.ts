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

/** A clone in which nothing is missing but the tools for tests and the base template; returns its script. */
async function writeClone(
  folder: string,
  programs: { readonly pull: string; readonly unpack: string },
) {
  const [bin, scripts] = [join(folder, "node_modules/.bin"), join(folder, "scripts")];
  await mkdir(bin, { recursive: true });
  await mkdir(scripts);
  await writeFile(join(bin, "node"), `#!/bin/sh\n${programs.pull}\n`, { mode: 0o755 });
  // Whoever waits for what the script says must not wait for what it has begun.
  const replaced = `begin_packages() { :; }; install_helpers() { :; }; unpack_chart_tools() { :; }
unpack_test_tools() { exec >&- 2>&-; ${programs.unpack}; }`;
  const text = await readFile(SETUP, "utf8");
  const script = join(scripts, "setup.sh");
  await writeFile(script, text.replace(/^begin_packages$/m, `${replaced}\nbegin_packages`));
  return script;
}

const env = { PATH: "/usr/bin:/bin" };

test("what is unpacked beside a base template that fails is there at the end of the set-up", async () => {
  await using folder = await makeTempFolder();
  const unpack = "sleep 0.5; echo unpacked >unpacked";
  const script = await writeClone(folder.path, { pull: "exit 74", unpack });
  const ended = promisify(execFile)("bash", [script], { env });
  await expect(ended).rejects.toMatchObject({ code: 74 });
  expect(await readFile(join(folder.path, "unpacked"), "utf8")).toBe("unpacked\n");
});

test("what is unpacked beside the base template does not outlive a set-up that is ended", async () => {
  await using folder = await makeTempFolder();
  const pull = "until [ -s started ]; do :; done; kill $PPID";
  const unpack = "sleep 1000 & echo $! >started; wait";
  const script = await writeClone(folder.path, { pull, unpack });
  const ended = promisify(execFile)("bash", [script], { env });
  await expect(ended).rejects.toMatchObject({ signal: "SIGTERM" });
  const pid = Number(await readFile(join(folder.path, "started"), "utf8"));
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), 20_000);
});
