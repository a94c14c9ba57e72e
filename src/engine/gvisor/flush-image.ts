/**
 * Sends an image to the disk while it is written, where it would wait in memory until all of it is
 * there: what a snapshot waits for after its programs go on is the rest.
 */

import { lstat, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { keepLooking } from "./keep-looking.ts";

const LOOK_MS = 10;
/** Each flush is a commit of the file system. */
const STEP_BYTES = 16 * 1024 * 1024;

/** Goes on until it is disposed of. It never fails: what is not on the disk then its caller brings there. */
export function flushImage(folder: string): AsyncDisposable {
  const flushed = new Map<string, number>();
  // The folder is made anew by each attempt.
  return keepLooking(LOOK_MS, () => flush(folder, flushed));
}

async function flush(folder: string, flushed: Map<string, number>): Promise<false> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const { size } = await lstat(path);
    if (size < (flushed.get(name) ?? 0) + STEP_BYTES) continue;
    flushed.set(name, size);
    await using file = await open(path, "r");
    await file.datasync();
  }
  return false;
}
