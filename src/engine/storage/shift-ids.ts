/** Moves the owners of a whole tree, for machines where no mount can show them moved. */

import { chmod, lchown, lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/** Giving a file away takes these from it. */
const SET_ID_BITS = 0o6000;
const MODE_BITS = 0o7777;

/** Adds `by` to the user and group of everything in a tree that nobody else changes meanwhile. */
export async function shiftIds(root: string, by: number): Promise<void> {
  const seen = new Set<bigint>();
  const folders = [root];
  await shiftEntry(root, by, seen);
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for await (const entry of await opendir(folder)) {
      const path = join(folder, entry.name);
      await shiftEntry(path, by, seen);
      if (entry.isDirectory()) folders.push(path);
    }
  }
}

/** A file with several names is moved once. */
async function shiftEntry(path: string, by: number, seen: Set<bigint>): Promise<void> {
  const entry = await lstat(path, { bigint: true });
  if (seen.has(entry.ino)) return;
  if (entry.nlink > 1n && !entry.isDirectory()) seen.add(entry.ino);
  await lchown(path, Number(entry.uid) + by, Number(entry.gid) + by);
  const mode = Number(entry.mode) & MODE_BITS;
  if ((mode & SET_ID_BITS) !== 0 && !entry.isSymbolicLink()) await chmod(path, mode);
}
