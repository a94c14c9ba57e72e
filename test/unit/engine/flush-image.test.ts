/** What brings an image of memory to the disk while it is written. */

import { appendFile, mkdir, open, readdir, readlink, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { flushImage } from "../../../src/engine/gvisor/flush-image.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MEGABYTE = 1024 * 1024;

/** Counts the flushes of files of this process. */
async function countFlushes(folder: string) {
  await using file = await open(folder, "r");
  return vi.spyOn(Object.getPrototypeOf(file), "datasync");
}

/** Files of a folder that this process has open. */
async function openBelow(folder: string): Promise<string[]> {
  const names = await readdir("/proc/self/fd");
  const paths = await Promise.all(
    names.map(async (name) => readlink(`/proc/self/fd/${name}`).catch(() => "")),
  );
  return paths.filter((path) => path.startsWith(folder));
}

test("large pieces are flushed while a file grows, also of a folder that is made anew", async () => {
  await using temp = await makeTempFolder();
  const image = join(temp.path, "image");
  const flushes = await countFlushes(temp.path);
  await using flushing = flushImage(image);
  for (const round of [1, 2]) {
    await mkdir(image);
    await writeFile(join(image, "checkpoint.img"), Buffer.alloc(MEGABYTE));
    await writeFile(join(image, "pages.img"), Buffer.alloc(20 * MEGABYTE));
    await appendFile(join(image, "pages.img"), Buffer.alloc(round * 20 * MEGABYTE));
    await expect.poll(() => flushes.mock.calls.length).toBeGreaterThanOrEqual(round);
    await rm(image, { recursive: true });
  }
  await flushing[Symbol.asyncDispose]();
  expect(await openBelow(temp.path)).toEqual([]);
});
