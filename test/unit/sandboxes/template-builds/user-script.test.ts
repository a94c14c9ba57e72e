/** The script of the step USER, with folders of its own instead of those of a system. */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { USER_SCRIPT } from "../../../../src/sandboxes/template-builds/scripts.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

const run = promisify(execFile);

/** Runs the step where every account exists, with the number 1001. */
async function makeUser(folder: string, parameters: readonly string[]) {
  const programs = join(folder, "bin");
  await mkdir(join(folder, "etc"), { recursive: true });
  await mkdir(programs, { recursive: true });
  await writeFile(join(programs, "id"), "#!/bin/sh\necho 1001\n", { mode: 0o755 });
  const note = `#!/bin/sh\necho "$@" >> ${join(folder, "groups")}\n`;
  await writeFile(join(programs, "usermod"), note, { mode: 0o755 });
  const made = `#!/bin/sh\necho "$@" >> ${join(folder, "accounts")}\n`;
  await writeFile(join(programs, "useradd"), made, { mode: 0o755 });
  await writeFile(join(folder, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n");
  const script = USER_SCRIPT.replaceAll(/\/(?=etc\/|usr\/local\/)/g, `${folder}/`);
  const env = { PATH: `${programs}:/usr/sbin:/usr/bin:/sbin:/bin` };
  return (await run("/bin/sh", ["-c", script, "user", ...parameters], { env })).stdout;
}

test.for(["plain", "with.dot", "back~", "Defaults", "ALL"])(
  "sudo reads the rule of the account %s",
  async (name) => {
    await using folder = await makeTempFolder();
    expect(await makeUser(folder.path, [name, "true"])).toBe(`${name}\n`);
    const rules = join(folder.path, "etc/sudoers.d");
    const [file = "", ...others] = await readdir(rules);
    expect(others).toEqual([]);
    // As sudo's manual has it: names that end in a tilde or contain a dot are skipped.
    expect(file).toMatch(/^[^.]*[^.~]$/);
    expect(await readFile(join(rules, file), "utf8")).toBe("#1001 ALL=(ALL:ALL) NOPASSWD: ALL\n");
  },
);

test("an account without sudo gets no rule", async () => {
  await using folder = await makeTempFolder();
  await makeUser(folder.path, ["plain", "false"]);
  expect(await readdir(join(folder.path, "etc"))).toEqual(["passwd"]);
});

test("a number without an account gets one in the group root, as in docker", async () => {
  await using folder = await makeTempFolder();
  expect(await makeUser(folder.path, ["4321", "false"])).toBe("user4321\n");
  const accounts = await readFile(join(folder.path, "accounts"), "utf8");
  expect(accounts).toBe("-m -u 4321 -g 0 -s /bin/bash -- user4321\n");
  expect(await makeUser(folder.path, ["0", "false"])).toBe("root\n");
});

test("an image with the stand-in of sudo gets a member of its group", async () => {
  await using folder = await makeTempFolder();
  const library = join(folder.path, "usr/local/lib/sandbox-mcp");
  await mkdir(library, { recursive: true });
  await writeFile(join(library, "sudo.sh"), "");
  await makeUser(folder.path, ["with.dot", "true"]);
  expect(await readFile(join(folder.path, "groups"), "utf8")).toBe("-a -G sudo -- with.dot\n");
});
