/**
 * The bound of an image while it is written: a kernel inside that writes more than all of its memory
 * would fill the disk of the host before anyone looked at the image.
 */

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { keepLooking } from "./keep-looking.ts";

const LOOK_MS = 200;
const BLOCK_BYTES = 512;
/** XFS gives a file that grows up to this many times its size, and takes back what was not needed. */
const AHEAD_FACTOR = 4;

/**
 * Calls `end` once the files in the folder have more bytes on the disk, without those that the file
 * system gave ahead; looks until it is disposed of.
 */
export function watchImage(
  folder: string,
  limitBytes: number,
  end: () => Promise<void>,
): AsyncDisposable {
  return keepLooking(LOOK_MS, async () => {
    if ((await sizeOf(folder)) <= limitBytes) return false;
    // What the end could not do the save finds.
    await end().catch(() => undefined);
    return true;
  });
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) {
    const { size, blocks } = await lstat(join(folder, name));
    const takenBytes = blocks * BLOCK_BYTES;
    // The second holds for one who takes space beyond the end of a file on purpose.
    bytes += Math.max(Math.min(size, takenBytes), takenBytes / AHEAD_FACTOR);
  }
  return bytes;
}
