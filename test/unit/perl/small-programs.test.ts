import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MB = 1024 * 1024;

async function run(program: string, words: readonly string[]) {
  const { code, stdout, stderr } = await runPerl(program, { words });
  return { isDone: code === 0, stdout: stdout.toString(), stderr };
}

/** Starts the program; its error output has ended, and its input has not. */
async function makePipes(directory: string, count: number) {
  const program = join(PERL_DIRECTORY, "make-pipes.pl");
  const child = spawn("perl", ["-f", program, process.arch, directory, `${count}`]);
  const said = await text(child.stderr);
  return {
    said,
    signal: () => void child.kill("SIGTERM"),
    async end() {
      child.stdin.destroy();
      await once(child, "exit");
    },
  };
}

test("pipes are made with their numbers as names, for their owner alone", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "pipes");
  const made = await makePipes(path, 3);
  expect(made.said).toBe("");
  expect((await readdir(path)).toSorted()).toEqual(["1", "2", "3"]);
  const pipe = await stat(join(path, "1"));
  expect({ isPipe: pipe.isFIFO(), mode: pipe.mode & 0o777 }).toEqual({ isPipe: true, mode: 0o600 });
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  await made.end();
});

test("no pipe is left when a daemon is killed that has taken none, or some", async () => {
  await using folder = await makeTempFolder();
  const made = await makePipes(join(folder.path, "pipes"), 3);
  await rm(join(folder.path, "pipes", "2"));
  // What ends a daemon by its process group reaches the program as well.
  made.signal();
  await made.end();
  expect(await readdir(folder.path)).toEqual([]);
});

test("pipes are not made in a directory that is there", async () => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "1"), "");
  const made = await run("make-pipes", [process.arch, folder.path, "3"]);
  expect(made).toEqual({ isDone: false, stdout: "", stderr: "mkdir: File exists\n" });
  expect(await readdir(folder.path)).toEqual(["1"]);
});

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
