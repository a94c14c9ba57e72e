/** What Node compiled is kept in the home, where nobody else can write it, and nowhere else. */

import { chmod, mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

async function kept(home: string): Promise<number> {
  await using program = startProgram(["manifest", "--home", home]);
  program.stdout.resume();
  expect(await program.exited()).toBe(0);
  const names = await readdir(join(home, "cache"), { recursive: true });
  return names.length;
}

test("a home of its user gets a folder for its user alone", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await mkdir(home, { mode: 0o700 });
  expect(await kept(home)).toBeGreaterThan(0);
  const modes = [home, join(home, "cache")].map(async (path) => (await stat(path)).mode & 0o777);
  expect(await Promise.all(modes)).toEqual([0o700, 0o700]);
});

test.for([
  { name: "folder", open: "cache" },
  { name: "home", open: "." },
])("a $name that others can write is not used", async ({ open }) => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "cache"), { mode: 0o700 });
  await chmod(join(folder.path, open), 0o777);
  expect(await kept(folder.path)).toBe(0);
});
