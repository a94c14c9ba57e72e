import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import {
  link,
  mkdir,
  readFile,
  readlink,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** More than a copier calls little, and some time to copy. */
const FOLDERS = 60;
const FILE_BYTES = 256 * 1024;
/** A copier may be through before this process can write. */
const MAX_TRIALS = 10;

const ENOUGH_BYTES = 1_000_000;

async function copy(
  pairs: readonly string[],
  input: string | Promise<string> = "go\n",
  mostBytes = ENOUGH_BYTES,
) {
  const words = [process.arch, `${mostBytes}`, ...pairs];
  const { code, stderr } = await runPerl("copier", { words, input });
  return { code, stderr };
}

const done = { code: 0, stderr: "ready\n" };

test("a copy has the kinds, modes, times, links and holes of its tree", async () => {
  await using folder = await makeTempFolder();
  const [source, target] = [join(folder.path, "source"), join(folder.path, "target")];
  await mkdir(join(source, "inner"), { recursive: true, mode: 0o751 });
  await writeFile(join(source, "inner/file"), "text", { mode: 0o640 });
  await utimes(join(source, "inner/file"), 1_000_000_000, 1_100_000_000);
  await link(join(source, "inner/file"), join(source, "second"));
  await symlink("/etc/passwd", join(source, "link"));
  await promisify(execFile)("mkfifo", [join(source, "fifo")]);
  expect(await copy([source, target])).toEqual(done);
  const file = await stat(join(target, "inner/file"));
  expect({ text: await readFile(join(target, "second"), "utf8"), mode: file.mode & 0o777 }).toEqual(
    {
      text: "text",
      mode: 0o640,
    },
  );
  expect(file.mtimeMs).toBe(1_100_000_000_000);
  expect((await stat(join(target, "second"))).ino).toBe(file.ino);
  expect(await readlink(join(target, "link"))).toBe("/etc/passwd");
  expect((await stat(join(target, "fifo"))).isFIFO()).toBe(true);
});

test("names of one file stay so when it is written between the copies of two", async () => {
  await using folder = await makeTempFolder();
  const source = join(folder.path, "source");
  const names = Array.from({ length: FOLDERS }, (_name, index) => `${index}/name`);
  const [first = "", ...others] = names;
  for (const name of names) {
    await mkdir(join(source, name, ".."), { recursive: true });
    await writeFile(join(source, name, "../data"), Buffer.alloc(FILE_BYTES, 1));
  }
  await writeFile(join(source, first), "old");
  for (const name of others) await link(join(source, first), join(source, name));
  let isBetween = false;
  for (let trial = 0; trial < MAX_TRIALS && !isBetween; trial += 1) {
    const target = join(folder.path, `target-${trial}`);
    const copied = () => names.filter((name) => existsSync(join(target, name))).length;
    const go = Promise.withResolvers<string>();
    const copying = copy([source, target], go.promise);
    await expect.poll(copied, { interval: 1 }).toBeGreaterThan(0);
    await writeFile(join(source, first), `new ${trial}`);
    isBetween = copied() < FOLDERS;
    await expect.poll(copied, { interval: 1 }).toBe(FOLDERS);
    go.resolve("go\n");
    expect(await copying).toEqual(done);
    const files = await Promise.all(names.map(async (name) => stat(join(target, name))));
    expect(new Set(files.map(({ ino }) => ino)).size).toBe(1);
    expect(await readFile(join(target, first), "utf8")).toBe(`new ${trial}`);
  }
  expect(isBetween).toBe(true);
});

test("a link at the top is copied as a link, and what it leads to is not read", async () => {
  await using folder = await makeTempFolder();
  const [source, target] = [join(folder.path, "source"), join(folder.path, "target")];
  await symlink("/etc", source);
  expect(await copy([source, target])).toEqual(done);
  expect(await readlink(target)).toBe("/etc");
});

test("several trees go to several folders, and no tree to none", async () => {
  await using folder = await makeTempFolder();
  const paths = ["a", "a-copy", "b", "b-copy"].map((name) => join(folder.path, name));
  const [a = "", aCopy = "", b = "", bCopy = ""] = paths;
  for (const path of [a, b]) {
    await mkdir(path);
    await writeFile(join(path, "name"), path);
  }
  expect(await copy(paths)).toEqual(done);
  for (const [path, its] of [
    [a, aCopy],
    [b, bCopy],
  ] as const) {
    expect(await readFile(join(its, "name"), "utf8")).toBe(path);
  }
  expect(await copy([])).toEqual(done);
});

test("without the line it ends in failure after the word that it is ready", async () => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "source"));
  const pair = [join(folder.path, "source"), join(folder.path, "target")];
  expect(await copy(pair, "")).toEqual({ code: 111, stderr: "ready\n" });
});

test("a tree that is not there fails the strict round, and says which", async () => {
  await using folder = await makeTempFolder();
  const pair = [join(folder.path, "source"), join(folder.path, "target")];
  const said = `ready\ncopier: ${pair[1]}: No such file or directory\n`;
  expect(await copy(pair)).toEqual({ code: 111, stderr: said });
});

test("a tree that is deeper than a path is long is refused by name", async () => {
  await using folder = await makeTempFolder();
  const source = join(folder.path, "source");
  const script = 'mkdir "$1"; cd -P "$1"; for i in $(seq 18); do mkdir "$2"; cd -P "$2"; done';
  await promisify(execFile)("sh", ["-ec", script, "sh", source, "d".repeat(250)]);
  const copied = await copy([source, join(folder.path, "target")]);
  // By open directories: the paths of the tree are too long for anybody else.
  await promisify(execFile)("rm", ["-rf", source]);
  expect(copied).toEqual({ code: 111, stderr: "copier: tree is too deep to copy\n" });
});

test("more names than are to be remembered are refused, however little they take", async () => {
  await using folder = await makeTempFolder();
  const source = join(folder.path, "source");
  await mkdir(source);
  await writeFile(join(source, "0"), "");
  for (let index = 1; index < 10; index += 1)
    await link(join(source, "0"), join(source, `${index}`));
  const bytes = 10 * (500 + join(folder.path, "first").length + 1);
  expect(await copy([source, join(folder.path, "first")], "go\n", bytes)).toEqual(done);
  expect(await copy([source, join(folder.path, "other")], "go\n", bytes - 1)).toEqual({
    code: 111,
    stderr: "copier: tree has too many names to copy\n",
  });
});
