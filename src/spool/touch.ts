/**
 * Keeps the age of spools that have not ended: a spool whose process is silent is not older than
 * the death of its owner, which nothing else records.
 */

import { utimes } from "node:fs/promises";
import { ifThere } from "../common/files.ts";
import { END_FILE, listFolder, listSandboxes, listSpools } from "./folders.ts";

/** Marks the spools of an owner that have not ended as in use at this time, in Unix milliseconds. */
export async function touchUnended(root: string, owner: string, atMs: number): Promise<void> {
  const time = new Date(atMs);
  for (const sandboxId of await listSandboxes(root)) {
    for (const place of await listSpools(root, sandboxId)) {
      if (place.owner !== owner) continue;
      if ((await listFolder(place.folder)).includes(END_FILE)) continue;
      await ifThere(utimes(place.folder, time, time));
    }
  }
}
