/** Login shells find the programs of their template, though the profile sets PATH anew. */

import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { LOGIN_PATH, LOGIN_PATH_FILE } from "../../../src/engine/templates/login-path.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PROFILE = `PATH=/usr/local/bin:/usr/bin:/bin:/usr/games
export PATH
for i in "$1"/profile.d/*.sh; do . "$i"; done
`;

/** PATH of a shell that has read such a profile; a part of the template's own follows ours. */
async function pathAfter(path: string, own: string, shell = "/bin/bash"): Promise<string> {
  await using folder = await makeTempFolder();
  const parts = join(folder.path, "profile.d");
  await mkdir(parts);
  await writeFile(join(folder.path, "profile"), PROFILE);
  await writeFile(join(parts, basename(LOGIN_PATH_FILE)), LOGIN_PATH);
  await writeFile(join(parts, "01-own.sh"), own);
  const program = 'set -eu; . "$1"/profile; printf %s "$PATH"; set | grep -c ^smcp_ >&2 || true';
  // The value of another variable is none of PATH. Without SHLVL bash takes a socket for rsh.
  const env = { SHLVL: "2", A: "x\nPATH=/wrong", PATH: path, B_PATH: "/wrong" };
  const { stdout, stderr } = await run(shell, ["-c", program, "shell", folder.path], { env });
  expect(stderr).toBe("0\n");
  return stdout;
}

test("the PATH that a shell was started with comes first", async () => {
  expect(await pathAfter("/usr/local/go/bin:/go bin/$x:/usr/bin", "")).toBe(
    "/usr/local/go/bin:/go bin/$x:/usr/bin:/usr/local/bin:/bin:/usr/games",
  );
});

test("what the template's own profile puts in front stays in front", async () => {
  const found = await pathAfter("/usr/local/go/bin:/bin", "PATH=/mine:$PATH");
  expect(found).toBe("/mine:/usr/local/go/bin:/bin:/usr/local/bin:/usr/bin:/usr/games");
});

test.for([
  ["/bin/bash", DEFAULT_PATH],
  ["/bin/dash", "/usr/local/go/bin:/usr/bin:/bin"],
] as const)("%s with %s keeps the profile's", async ([shell, path]) => {
  const profile = "/usr/local/bin:/usr/bin:/bin:/usr/games";
  expect(await pathAfter(path, "", shell)).toBe(profile);
});
