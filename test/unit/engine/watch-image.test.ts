/** The bound of an image of memory while it is written. */

import { execFile } from "node:child_process";
import { appendFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { watchImage } from "../../../src/engine/gvisor/watch-image.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const MEGABYTE = 1024 * 1024;

test("a kernel that writes more than its image may have is ended, once", async () => {
  await using folder = await makeTempFolder();
  let ends = 0;
  await using watch = watchImage(folder.path, MEGABYTE, async () => {
    ends += 1;
    throw new Error("it is gone already");
  });
  expect(watch).toBeDefined();
  for (const name of ["a", "b"]) {
    await writeFile(join(folder.path, name), Buffer.alloc(400_000, 1));
  }
  expect(ends).toBe(0);
  await appendFile(join(folder.path, "b"), Buffer.alloc(400_000, 1));
  await expect.poll(() => ends).toBe(1);
  await watch[Symbol.asyncDispose]();
  expect(ends).toBe(1);
});

test("pages that take no space, and a folder that is gone, end nothing", async () => {
  await using folder = await makeTempFolder();
  let ends = 0;
  const end = async (): Promise<void> => void (ends += 1);
  const path = join(folder.path, "pages.img");
  await writeFile(path, "");
  await truncate(path, 100 * MEGABYTE);
  await using sparse = watchImage(folder.path, MEGABYTE, end);
  await using gone = watchImage(join(folder.path, "none"), 0, end);
  for (const watch of [sparse, gone]) await watch[Symbol.asyncDispose]();
  expect(ends).toBe(0);
});

test("space that a file system gives a growing file ahead counts only beyond four times its size", async () => {
  await using folder = await makeTempFolder();
  let ends = 0;
  const end = async (): Promise<void> => void (ends += 1);
  const path = join(folder.path, "pages.img");
  await writeFile(path, Buffer.alloc(MEGABYTE, 1));
  const takeAhead = async (bytes: number) =>
    run("fallocate", ["--keep-size", "--length", String(bytes), path]);
  await takeAhead(3 * MEGABYTE);
  const first = watchImage(folder.path, MEGABYTE, end);
  await first[Symbol.asyncDispose]();
  expect(ends).toBe(0);
  await takeAhead(8 * MEGABYTE);
  const second = watchImage(folder.path, MEGABYTE, end);
  await second[Symbol.asyncDispose]();
  expect(ends).toBe(1);
});
