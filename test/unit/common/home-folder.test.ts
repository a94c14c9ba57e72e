/** A home is new, empty or one that this program made; the folder of something else is refused. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chown, mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { openHome } from "../../../src/commands/home/home.ts";
import { homeFault } from "../../../src/common/home-folder.ts";
import { keepCompiled } from "../../../src/compile-cache.ts";
import { LOCK_NAMES } from "../../../src/engine/host/lock.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { endChild } from "../../support/end-child.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FOREIGN = "is not empty and is no home of sandbox-mcp";
const OTHER_USER = 4711;

/** Makes these files, or folders where the name ends in a slash. */
async function fill(folder: string, names: readonly string[]): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const name of names) {
    const path = join(folder, name);
    await mkdir(name.endsWith("/") ? path : dirname(path), { recursive: true });
    if (!name.endsWith("/")) await writeFile(path, "text");
  }
}

/** Everything below, with its mode. */
async function listAll(folder: string): Promise<string[]> {
  const names = [".", ...(await readdir(folder, { recursive: true }))];
  const modes = names.map(async (name) => `${(await stat(join(folder, name))).mode} ${name}`);
  return (await Promise.all(modes)).toSorted();
}

test("the longest path of a home is one in which databases open", async () => {
  await using folder = await makeTempFolder();
  const below = (bytes: number) => {
    const missing = bytes - folder.path.length;
    return folder.path + "/d".repeat(Math.floor(missing / 2)).padEnd(missing, "d");
  };
  const longest = below(490);
  await openHome(longest);
  openStore({ path: join(longest, "state.db") })[Symbol.dispose]();
  await expect(openHome(below(491))).rejects.toThrow("too long");
});

test.for(["/", "/etc", "/usr", "/proc", "/dev"])("%s is no home", (path) => {
  expect(homeFault(path)).toBe(process.getuid?.() === 0 ? FOREIGN : "belongs to another user");
});

test.for([
  { name: "a git checkout", names: [".git/HEAD", "package.json", "src/main.ts"] },
  { name: "the folder of a person", names: [".bashrc", "cache/", "layers/"] },
  { name: "one hidden file", names: [".profile"] },
  { name: "folders of volumes", names: ["volumes/data/"] },
  { name: "layers of another program", names: ["layers/overlay2/"] },
  { name: "a cache of another program", names: ["cache/pip/"] },
  { name: "another spool", names: ["spool/cron/"] },
  { name: "locks of another program", names: ["apt.lock"] },
  { name: "a file with the name of a folder", names: ["daemon", "main.c"] },
  { name: "a place of another kind", names: ["place.json"] },
  { name: "a database that is none", names: ["state.db", "state.db-logs", "layers/"] },
])("$name is refused, and nothing in it changes", async ({ names }) => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "foreign");
  await fill(home, names);
  const before = await listAll(home);
  keepCompiled({ SANDBOX_MCP_HOME: home }, []);
  await expect(openHome(home)).rejects.toMatchObject({
    code: "failed_precondition",
    message: `home ${home} ${FOREIGN}`,
    hint: "choose a new or empty directory, or a home of sandbox-mcp, with --home",
  });
  expect(await listAll(home)).toEqual(before);
});

test.runIf(process.getuid?.() === 0)(
  "a folder of another user is refused, empty or not",
  async () => {
    await using folder = await makeTempFolder();
    const home = join(folder.path, "theirs");
    await mkdir(home, { mode: 0o750 });
    await chown(home, OTHER_USER, OTHER_USER);
    const before = await listAll(home);
    keepCompiled({ SANDBOX_MCP_HOME: home }, []);
    await expect(openHome(home)).rejects.toMatchObject({
      message: `home ${home} belongs to another user`,
      hint:
        "make this user its owner, or choose a new or empty directory, or a home of sandbox-mcp, " +
        "with --home",
    });
    expect(await listAll(home)).toEqual(before);
  },
);

test.runIf(process.getuid?.() === 0)(
  "a folder of another user that root had as its home stays that",
  async () => {
    await using folder = await makeTempFolder();
    const home = join(folder.path, "mounted");
    await openHome(home);
    await chown(home, OTHER_USER, OTHER_USER);
    await openHome(home);
    await chown(join(home, "place.json"), OTHER_USER, OTHER_USER);
    expect(homeFault(home)).toBe("belongs to another user");
  },
);

test.for([
  { name: "nothing", names: [] },
  { name: "a file system of its own", names: ["lost+found/"] },
  { name: "a start that was cut", names: ["cache/v24.1.0-x64-0a-0/f", "instances/serve/token"] },
  {
    name: "a build of base that was cut",
    names: ["base.lock", "layers/base-1795716538754-66d7979f.0a0b0c0d.part/root/"],
  },
  { name: "a stdio server of a remote service", names: ["spool/remote-0123456789abcdef/x/"] },
  { name: "an authority", names: ["authority.lock", "ca-a.test.pem", "ca-a.test.key"] },
  {
    name: "the first start of an ordinary user",
    names: ["namespace", "namespace.lock", "cache/", "layers/"],
  },
  {
    name: "the first start of an ordinary user that was killed, or is under way",
    names: ["namespace.part", "namespace.lock", "cache/"],
  },
  {
    name: "every lock",
    names: [...LOCK_NAMES, "image-0123456789abcdef"].map((name) => `${name}.lock`),
  },
  {
    name: "a doctor that was killed",
    names: ["engine-probe.json", "probe12x0a1b/s", ".share-0a-1b", "daemon/0123456789ab/node"],
  },
])("$name is a home", async ({ names }) => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await fill(home, names);
  await openHome(home);
  expect(await readdir(home)).toContain("place.json");
});

test("a home of a version without a mark is known by its database", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await fill(home, ["volumes/v1/", "notes of its owner", "layers/0a1b/root/"]);
  openStore({ path: join(home, "state.db") })[Symbol.dispose]();
  await openHome(home);
  expect(await readdir(home)).toContain("place.json");
});

test("what lies beside the files of a home does not make it foreign", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await openHome(home);
  await fill(home, ["notes of its owner", "Dockerfile"]);
  expect(homeFault(home)).toBeUndefined();
});

/** Makes as many homes, one after the other: in each the mark comes first, then a name that is not early. */
const MAKE_HOMES = `
  const fs = require("node:fs");
  const [, folder, count] = process.argv;
  for (let index = 0; index < Number(count); index += 1) {
    const home = folder + "/" + index;
    fs.mkdirSync(home + "/layers", { recursive: true });
    fs.writeFileSync(home + "/place.json.part", JSON.stringify({ id: "i", path: home }));
    fs.renameSync(home + "/place.json.part", home + "/place.json");
    fs.writeFileSync(home + "/layers/other", "");
    fs.writeFileSync(home + "/seed", "");
  }`;

const MAKING = { timeout: 90_000 };

test("a home that another process makes meanwhile is none of another program", MAKING, async () => {
  const homes = 1_000;
  await using folder = await makeTempFolder();
  const words = ["-e", MAKE_HOMES, folder.path, String(homes)];
  const maker = spawn(process.execPath, words, { stdio: "ignore" });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => endChild(maker));
  const last = performance.now() + 60_000;
  let index = 0;
  while (index < homes - 1 && performance.now() < last) {
    expect(homeFault(join(folder.path, String(index)))).toBeUndefined();
    if (existsSync(join(folder.path, String(index + 1)))) index += 1;
  }
  expect(index).toBe(homes - 1);
});

test("a home may be reached by a symbolic link, and a foreign folder may not", async () => {
  await using folder = await makeTempFolder();
  const [home, foreign] = [join(folder.path, "home"), join(folder.path, "foreign")];
  await openHome(home);
  await fill(foreign, ["a"]);
  await symlink(home, join(folder.path, "to-home"));
  await symlink(foreign, join(folder.path, "to-foreign"));
  await openHome(join(folder.path, "to-home"));
  await expect(openHome(join(folder.path, "to-foreign"))).rejects.toThrow(FOREIGN);
});

test.for([
  { name: "a line break", path: "a\nb" },
  { name: "a quotation mark", path: 'a"b' },
  { name: "too long a path", path: Array.from({ length: 9 }, () => "d".repeat(200)).join("/") },
  { name: "too long a name", path: "d".repeat(300) },
  { name: "a file on the way", path: "file/home" },
  { name: "a home that is not there", path: "wrong" },
])("the compile cache makes nothing for $name, and does not fail", async ({ path }) => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "file"), "");
  keepCompiled({ SANDBOX_MCP_HOME: join(folder.path, path) }, []);
  expect(await readdir(folder.path)).toEqual(["file"]);
});
