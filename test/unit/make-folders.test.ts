/** Folders are made with their parents; where the kernel makes none, that is said and not waited for. */

import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeFolders } from "../../src/common/make-folders.ts";
import { openCgroup } from "../../src/engine/oci/cgroups.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("a folder and its parents, twice, with their mode", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "a/b/c");
  for (let round = 0; round < 2; round += 1) makeFolders(path, 0o700);
  const modes = ["a", "a/b", "a/b/c"].map(
    async (name) => (await stat(join(folder.path, name))).mode & 0o777,
  );
  expect(await Promise.all(modes)).toEqual([0o700, 0o700, 0o700]);
});

test("a file in the way, and a file system without folders", async () => {
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "file"), "");
  expect(() => makeFolders(join(folder.path, "file"), 0o700)).toThrow("EEXIST");
  expect(() => makeFolders(join(folder.path, "file/below"), 0o700)).toThrow("ENOTDIR");
  expect(() => makeFolders("/proc/none/below", 0o700)).toThrow("ENOENT");
});

test("a tree of cgroups that is there no more", async () => {
  await using folder = await makeTempFolder();
  const host = { unified: "/proc/none", legacy: [], hasSwapLimit: true };
  const limits = { memoryMb: 64, cpus: 1, diskMb: 64, pids: 16 };
  await expect(openCgroup(host, "i0", folder.path).make(limits)).rejects.toThrow("ENOENT");
});
