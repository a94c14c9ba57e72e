/** The program that stands in for sudo where an image has none. */

import { execFile, spawnSync } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createContents } from "../../../src/images/contents.ts";
import { giveSudo, standIn } from "../../../src/images/sudo.ts";
import { createTreeWriter } from "../../../src/images/tree-writer.ts";
import { createTree } from "../../../src/images/tree.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);

test("it becomes its script, with arguments and environment", async () => {
  await using folder = await makeTempFolder();
  const script = join(folder.path, "script");
  const program = join(folder.path, "sudo");
  await writeFile(script, '#!/bin/sh\necho "$#:$2:$WORD:$(id -u):$(id -G)"\n', { mode: 0o755 });
  await writeFile(program, standIn(script));
  await chmod(program, 0o755);
  const { stdout } = await run(program, ["a", "b c"], { env: { ...process.env, WORD: "said" } });
  expect(stdout).toMatch(/^2:b c:said:[0-9]+:[0-9 ]+\n$/);
});

test.for([
  ["x64", 62],
  ["arm64", 183],
] as const)("for %s it is one segment that ends in the path", ([architecture, machine]) => {
  const program = standIn("/a/path", architecture);
  expect(program.toString("hex", 0, 7)).toBe("7f454c46020101");
  expect(program.readUInt16LE(18)).toBe(machine);
  expect(program.readBigUInt64LE(96)).toBe(BigInt(program.length));
  expect(program.subarray(-8).toString("latin1")).toBe("/a/path\0");
});

test("there is none for another processor", () => {
  expect(() => standIn("/a/path", "s390x")).toThrow(/no sudo/);
});

test.for([
  [["-v"], ["", 0]],
  [
    ["-n", "-v"],
    ["", 0],
  ],
  [["-k"], ["", 0]],
  [
    ["-k", "echo", "word"],
    ["word\n", 0],
  ],
  [["-s"], ["read\n", 7]],
  [["-i"], ["read\n", 7]],
  [[], ["", 1]],
] as const)("%j runs no command that it was not given", async ([args, expected]) => {
  await using folder = await makeTempFolder();
  const contents = await createContents(join(folder.path, "contents"), 1024 ** 2);
  const files = createTreeWriter(createTree(), contents);
  expect(await giveSudo(files)).toBe(true);
  const script = (await files.read("/usr/local/lib/sandbox-mcp/sudo.sh")) ?? "";
  const { stdout, status } = spawnSync("/bin/sh", ["-c", script, "sudo", ...args], {
    input: "echo read; exit 7\n",
    encoding: "utf8",
  });
  expect([stdout, status]).toEqual(expected);
});

test("the stand-in of an earlier import is no sudo of the image", async () => {
  await using folder = await makeTempFolder();
  const contents = await createContents(join(folder.path, "contents"), 1024 ** 2);
  const files = createTreeWriter(createTree(), contents);
  expect([await giveSudo(files), await giveSudo(files)]).toEqual([true, true]);
  expect(files.isFile("/etc/sudoers")).toBe(false);
});

test("a sudoers file too long to be read stops the import, and is not replaced", async () => {
  await using folder = await makeTempFolder();
  const contents = await createContents(join(folder.path, "contents"), 1024 ** 2);
  const files = createTreeWriter(createTree(), contents);
  await files.write("/usr/bin/sudo", "", { mode: 0o4755 });
  await files.write("/etc/sudoers", "# rule\n".repeat(150_000));
  await expect(giveSudo(files)).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the image cannot be a sandbox: its /etc/sudoers has more than 1048576 bytes",
  });
});
