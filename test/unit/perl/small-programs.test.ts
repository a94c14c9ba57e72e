import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MB = 1024 * 1024;

async function run(program: string, words: readonly string[]) {
  const { code, stdout, stderr } = await runPerl(program, { words });
  return { isDone: code === 0, stdout: stdout.toString(), stderr };
}

test("the parts of a sparse file that have data are told by first byte and end", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "sparse");
  await using file = await open(path, "w");
  await file.truncate(8 * MB);
  await file.write(Buffer.alloc(MB, 1), 0, MB, 0);
  await file.write(Buffer.alloc(MB, 1), 0, MB, 5 * MB);
  const { stdout } = await run("find-data", [path]);
  expect(stdout).toBe(`0 ${MB}\n${5 * MB} ${6 * MB}\n`);
});

test("a file that is one hole has no parts, and a missing one is a fault", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "hole");
  await using file = await open(path, "w");
  await file.truncate(MB);
  expect(await run("find-data", [path])).toEqual({ isDone: true, stdout: "", stderr: "" });
  await mkdir(join(folder.path, "empty"));
  expect(await run("find-data", [join(folder.path, "none")])).toEqual({
    isDone: false,
    stdout: "",
    stderr: "No such file or directory\n",
  });
});
