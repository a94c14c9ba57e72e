/** Disks after the first of a size are what formatting made of that one. */

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createBlankDisks } from "../../../src/engine/storage/blank-disk.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const SIZE_MB = 64;

test("a later disk has the bytes of the first, and its holes", async () => {
  await using folder = await makeTempFolder();
  const { signal } = new AbortController();
  const disks = createBlankDisks(PERL_DIRECTORY);
  const paths = ["first", "second"].map((name) => join(folder.path, name));
  for (const path of paths) await disks.make(path, SIZE_MB, signal);
  const [first, second] = await Promise.all(paths.map(async (path) => readFile(path)));
  expect(first?.length).toBe(SIZE_MB * 1024 * 1024);
  // The magic number of an ext4 superblock.
  expect(first?.readUInt16LE(1024 + 0x38)).toBe(0xef53);
  expect(second?.equals(first ?? Buffer.alloc(0))).toBe(true);
  const [one, two] = await Promise.all(paths.map(async (path) => (await stat(path)).blocks));
  expect(two).toBeLessThanOrEqual(one ?? 0);
});

test("a disk that is there already is not touched", async () => {
  await using folder = await makeTempFolder();
  const { signal } = new AbortController();
  const disks = createBlankDisks(PERL_DIRECTORY);
  const path = join(folder.path, "disk");
  await disks.make(path, SIZE_MB, signal);
  await expect(disks.make(path, SIZE_MB, signal)).rejects.toMatchObject({ code: "EEXIST" });
});
