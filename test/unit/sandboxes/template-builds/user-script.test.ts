/** The script of the step USER, with folders of its own instead of those of a system. */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { USER_SCRIPT } from "../../../../src/sandboxes/template-builds/scripts.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

const run = promisify(execFile);

/** Runs the step where every account exists, with the number 1001, and its group is `own`. */
async function makeUser(folder: string, parameters: readonly string[]) {
  const programs = join(folder, "bin");
  await mkdir(join(folder, "etc"), { recursive: true });
  await mkdir(programs, { recursive: true });
  const ids = '#!/bin/sh\n[ "$1" = -gn ] && echo own || echo 1001\n';
  await writeFile(join(programs, "id"), ids, { mode: 0o755 });
  const note = `#!/bin/sh\necho "$@" >> ${join(folder, "groups")}\n`;
  await writeFile(join(programs, "usermod"), note, { mode: 0o755 });
  const made = `#!/bin/sh\necho "$@" >> ${join(folder, "accounts")}\n`;
  await writeFile(join(programs, "useradd"), made, { mode: 0o755 });
  await writeFile(join(folder, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n");
  const script = USER_SCRIPT.replaceAll(/\/(?=etc\/|usr\/local\/)/g, `${folder}/`);
  const env = { PATH: `${programs}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const { stdout, stderr } = await run("/bin/sh", ["-c", script, "user", ...parameters], { env });
  return `${stdout}${stderr}`;
}

test.for([
  ["1001", ""],
  ["staff", ""],
  // Made with the account, after the step has read the groups.
  ["own", ""],
  ["root", "the group root has no effect: that of plain is 1001\n"],
  ["0", "the group 0 has no effect: that of plain is 1001\n"],
  ["nogroup", "the group nogroup has no effect: that of plain is 1001\n"],
] as const)("a group %s beside the account says %j", async ([group, note]) => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "etc"));
  await writeFile(join(folder.path, "etc/group"), "root:x:0:\nstaff:x:1001:a,b\n");
  expect(await makeUser(folder.path, ["plain", "false", group])).toBe(`plain\n${note}`);
});

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

test.for([
  ["1001", "-m -u 4321 -g 1001 -s /bin/bash -- user4321\n", "root:x:0:\ngroup1001:x:1001:\n"],
  ["0", "-m -u 4321 -g 0 -s /bin/bash -- user4321\n", "root:x:0:\n"],
  ["root", "-m -u 4321 -g 0 -s /bin/bash -- user4321\n", "root:x:0:\n"],
] as const)("a number without an account gets one in the group %s", async (given) => {
  const [group, accounts, groups] = given;
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "etc"));
  await writeFile(join(folder.path, "etc/group"), "root:x:0:\n");
  expect(await makeUser(folder.path, ["4321", "false", group])).toMatch(/^user4321\n/);
  expect(await readFile(join(folder.path, "accounts"), "utf8")).toBe(accounts);
  expect(await readFile(join(folder.path, "etc/group"), "utf8")).toBe(groups);
});

test("a number without an account in a group that is not there is refused", async () => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "etc"));
  await writeFile(join(folder.path, "etc/group"), "root:x:0:\n");
  await expect(makeUser(folder.path, ["4321", "false", "staff"])).rejects.toMatchObject({
    stderr: "there is no group staff\n",
  });
});

test("an image with the stand-in of sudo gets a member of its group", async () => {
  await using folder = await makeTempFolder();
  const library = join(folder.path, "usr/local/lib/sandbox-mcp");
  await mkdir(library, { recursive: true });
  await writeFile(join(library, "sudo.sh"), "");
  await makeUser(folder.path, ["with.dot", "true"]);
  expect(await readFile(join(folder.path, "groups"), "utf8")).toBe("-a -G sudo -- with.dot\n");
});

test("an image without useradd and adduser gets the lines of an account", async () => {
  await using folder = await makeTempFolder();
  const programs = join(folder.path, "bin");
  await mkdir(join(folder.path, "etc"));
  await mkdir(programs);
  for (const name of ["chmod", "grep", "mkdir", "sed"]) {
    await symlink(await programPath(name), join(programs, name));
  }
  // Accounts of the test are none of the machine's.
  const known = `#!/bin/sh\n[ "$3" = root ] || grep -q "^$3:" ${folder.path}/etc/passwd && echo 1\n`;
  await writeFile(join(programs, "id"), known, { mode: 0o755 });
  const note = `#!/bin/sh\necho "$@" >> ${join(folder.path, "owners")}\n`;
  await writeFile(join(programs, "chown"), note, { mode: 0o755 });
  await mkdir(join(folder.path, "usr/local/lib/sandbox-mcp"), { recursive: true });
  await writeFile(join(folder.path, "usr/local/lib/sandbox-mcp/sudo.sh"), "");
  await writeFile(join(folder.path, "etc/passwd"), "user:x:1000:1000::/home/user:/bin/sh\n");
  await writeFile(join(folder.path, "etc/group"), "sudo:x:27:\nother:x:1001:\n");
  const script = USER_SCRIPT.replaceAll(/\/(?=etc\/|usr\/local\/|home\/)/g, `${folder.path}/`);
  for (const [name = "", sudo = "", group = ""] of [
    ["bob", "true"],
    ["bob", "true"],
    ["eve", "true"],
    ["4321", "false"],
    ["5432", "false", "66"],
    ["other", "false"],
  ]) {
    await run("/bin/sh", ["-c", script, "user", name, sudo, group], { env: { PATH: programs } });
  }
  const home = join(folder.path, "home");
  expect(await readFile(join(folder.path, "etc/passwd"), "utf8")).toBe(
    "user:x:1000:1000::/home/user:/bin/sh\n" +
      `bob:x:1002:1002::${home}/bob:/bin/bash\n` +
      `eve:x:1003:1003::${home}/eve:/bin/bash\n` +
      `user4321:x:4321:0::${home}/user4321:/bin/bash\n` +
      `user5432:x:5432:66::${home}/user5432:/bin/bash\n` +
      `other:x:1004:1001::${home}/other:/bin/bash\n`,
  );
  expect(await readFile(join(folder.path, "etc/group"), "utf8")).toBe(
    "sudo:x:27:bob,eve\nother:x:1001:\nbob:x:1002:\neve:x:1003:\ngroup66:x:66:\n",
  );
  expect(await readFile(join(folder.path, "owners"), "utf8")).toBe(
    `-- 1002:1002 ${home}/bob\n-- 1003:1003 ${home}/eve\n` +
      `-- 4321:0 ${home}/user4321\n-- 5432:66 ${home}/user5432\n` +
      `-- 1004:1001 ${home}/other\n`,
  );
  expect(await readdir(home)).toEqual(["bob", "eve", "other", "user4321", "user5432"]);
});

test.for([
  { program: "useradd", name: "staff", expected: "-m -g staff -s /bin/bash -- staff\n" },
  { program: "useradd", name: "a.b", expected: "-m -g a.b -s /bin/bash -- a.b\n" },
  { program: "useradd", name: "a.c", expected: "-m -s /bin/bash -- a.c\n" },
  { program: "adduser", name: "staff", expected: "-D -G staff -s /bin/bash staff\n" },
  { program: "adduser", name: "other", expected: "-D -s /bin/bash other\n" },
])("$program makes $name in the group of the same name", async ({ program, name, expected }) => {
  await using folder = await makeTempFolder();
  const programs = join(folder.path, "bin");
  await mkdir(join(folder.path, "etc"));
  await mkdir(programs);
  await writeFile(join(folder.path, "etc/group"), "root:x:0:\nstaff:x:50:\naxc:x:7:\na.b:x:51:");
  await writeFile(join(programs, "id"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const note = `#!/bin/sh\necho "$@" >> ${join(folder.path, "accounts")}\n`;
  await writeFile(join(programs, program), note, { mode: 0o755 });
  const script = USER_SCRIPT.replaceAll(/\/(?=etc\/)/g, `${folder.path}/`);
  const options = { env: { PATH: programs } };
  await run("/bin/sh", ["-c", script, "user", name, "false"], options);
  expect(await readFile(join(folder.path, "accounts"), "utf8")).toBe(expected);
});

async function programPath(name: string): Promise<string> {
  return (await run("/bin/sh", ["-c", `command -v ${name}`])).stdout.trim();
}
