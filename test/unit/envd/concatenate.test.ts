/** Files are joined by their own names, whatever bytes those have. */

import { execFileSync } from "node:child_process";
import { open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fromSystemBytes } from "../../../src/common/file-names.ts";
import { concatenate } from "../../../src/envd/files/concatenate.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a name that is not UTF-8 is not that of a file with a replacement character", async () => {
  await using folder = await makeTempFolder();
  const source = Buffer.concat([Buffer.from(join(folder.path, "part")), Buffer.of(0xff)]);
  await writeFile(source, "own");
  await writeFile(join(folder.path, "part\uFFFD"), "other");
  await writeFile(join(folder.path, "first"), "first and ");
  const target = join(folder.path, "target");
  await using file = await open(target, "w");
  const sources = [join(folder.path, "first"), fromSystemBytes(source)];
  await concatenate(sources, file, new AbortController().signal);
  expect(await readFile(target, "utf8")).toBe("first and own");
});

test("a pipe that took the place of a file is refused, not waited for", async () => {
  await using folder = await makeTempFolder();
  const [first, pipe, target] = ["first", "pipe", "target"].map((name) => join(folder.path, name));
  await writeFile(first ?? "", "first");
  execFileSync("sh", ["-c", `mkfifo "$1"`, "sh", pipe ?? ""]);
  await using file = await open(target ?? "", "w");
  const joined = concatenate([first ?? "", pipe ?? ""], file, AbortSignal.timeout(5_000));
  await expect(joined).rejects.toThrow("it is no regular file any more");
});

test("more files than one call takes are joined in order", async () => {
  await using folder = await makeTempFolder();
  const names = Array.from({ length: 150 }, (_, index) => join(folder.path, `part${index}`));
  for (const [index, name] of names.entries()) await writeFile(name, `${index} `);
  const target = join(folder.path, "target");
  await using file = await open(target, "w");
  await concatenate(names, file, new AbortController().signal);
  expect(await readFile(target, "utf8")).toBe(names.map((_, index) => `${index} `).join(""));
});

test("a file of the kernel is taken whole, and one without an end is refused", async () => {
  await using folder = await makeTempFolder();
  const [first, target] = [join(folder.path, "first"), join(folder.path, "target")];
  await writeFile(first, "first ");
  await using file = await open(target, "w");
  const joinWith = async (source: string) =>
    concatenate([first, source, first], file, AbortSignal.timeout(10_000));
  await expect(joinWith("/proc/self/pagemap")).rejects.toThrow("more than 16777216 bytes");
  await file.truncate(0);
  await joinWith("/proc/version");
  const version = await readFile("/proc/version", "utf8");
  expect(await readFile(target, "utf8")).toBe(`first ${version}first `);
});
