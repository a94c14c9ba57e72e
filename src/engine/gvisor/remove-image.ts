/**
 * Removes images of memory. The salt of an encrypted one is overwritten first: without it nothing of
 * what the disk's blocks still hold can be read, where the file system writes in place.
 */

import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { ifThere } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";

/** The note of an image, in its folder. */
export const NOTE_NAME = "memory.json";
/** Of an encrypted image alone. */
const SEAL_FIELD = '"seal":';
const FLAGS = constants.O_RDWR | constants.O_NOFOLLOW;

/** Removes the folder of one image; without one it does nothing. */
export async function removeImage(folder: string, signal?: AbortSignal): Promise<void> {
  await wipeNote(folder);
  await removeTree(folder, signal === undefined ? {} : { signal });
}

/** Removes a folder in which each folder is that of an image, or of the draft of one. */
export async function removeImages(parent: string): Promise<void> {
  const names = (await ifThere(readdir(parent), "ENOTDIR")) ?? [];
  for (const name of names) await wipeNote(join(parent, name));
  await removeTree(parent);
}

/** What cannot be overwritten is removed all the same. */
async function wipeNote(folder: string): Promise<void> {
  try {
    await using file = await open(join(folder, NOTE_NAME), FLAGS);
    const { size } = await file.stat();
    const { buffer } = await file.read(Buffer.alloc(size), 0, size, 0);
    if (!buffer.includes(SEAL_FIELD)) return;
    await file.write(buffer.fill(0), 0, size, 0);
    await file.sync();
  } catch {
    return;
  }
  await step("image.wiped");
}
