/** The directory in which a command tries the machine where its home is not there. */

import { execFile } from "node:child_process";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTrialHome } from "../../../src/commands/home/trial-home.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src/commands/home/trial-home.ts");

const CODE = `
  const { openTrialHome } = await import(${JSON.stringify(SOURCE)});
  console.log(process.pid, openTrialHome(process.argv[1])?.path);`;

test("it lies in the nearest directory that is there, and goes with all that is in it", async () => {
  await using folder = await makeTempFolder();
  const trial = openTrialHome(join(folder.path, "new/home"));
  const path = trial?.path ?? "";
  expect(dirname(path)).toBe(folder.path);
  await mkdir(join(path, "layers"));
  await writeFile(join(path, "layers/file"), "");
  // As the program that takes the place of this one.
  expect(openTrialHome(join(folder.path, "new/home"))?.path).toBe(path);
  await trial?.[Symbol.asyncDispose]();
  expect(await readdir(folder.path)).toEqual([]);
});

test("two containers in which the program has the same number have one each", async () => {
  await using folder = await makeTempFolder();
  const alone = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
  const node = [process.execPath, "--eval", CODE, join(folder.path, "home")];
  const run = async () => (await promisify(execFile)("unshare", [...alone, ...node])).stdout;
  const found = [await run(), await run()].map((line) => line.trim().split(" "));
  expect(found.map(([pid]) => pid)).toEqual(["1", "1"]);
  const names = found.map(([, path = ""]) => basename(path));
  expect(names.toSorted()).toEqual((await readdir(folder.path)).toSorted());
  expect(new Set(names).size).toBe(2);
});

test.for(["", "home"])("there is none behind a link that leads nowhere: link/%s", async (name) => {
  await using folder = await makeTempFolder();
  await symlink(join(folder.path, "gone"), join(folder.path, "link"));
  expect(openTrialHome(join(folder.path, "link", name))).toBeUndefined();
  expect(await readdir(folder.path)).toEqual(["link"]);
});
