/** What the spools of a folder are, and what they take of the disk. */

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { causeCode } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { END_FILE, listFolder, listSandboxes, listSpools, type SpoolLocation } from "./folders.ts";

/** How a spool ended: the moment, and whatever its owner wrote about it. */
const endingSchema = z.looseObject({ endedAtMs: z.number() });

export interface Entry {
  readonly place: SpoolLocation;
  readonly bytes: number;
  /** Undefined while it goes on, or when its owner died over it. */
  readonly endedAtMs: number | undefined;
  readonly changedAtMs: number;
}

/** Every spool. */
export async function listEntries(root: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const sandboxId of await listSandboxes(root)) {
    for (const place of await listSpools(root, sandboxId)) entries.push(await look(place));
  }
  return entries;
}

async function look(place: SpoolLocation): Promise<Entry> {
  let bytes = 0;
  let changedAtMs = place.createdAtMs;
  for (const name of await listFolder(place.folder)) {
    const facts = await statOf(join(place.folder, name));
    bytes += facts.size;
    changedAtMs = Math.max(changedAtMs, facts.mtimeMs);
  }
  const ending = await readEnding(place);
  return { place, bytes, endedAtMs: ending?.endedAtMs, changedAtMs };
}

/** How a spool ended; undefined while it goes on, or when its owner died over it. */
export async function readEnding(
  place: SpoolLocation,
): Promise<z.infer<typeof endingSchema> | undefined> {
  try {
    const text = await readFile(join(place.folder, END_FILE), "utf8");
    return endingSchema.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (causeCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function statOf(path: string): Promise<{ readonly size: number; readonly mtimeMs: number }> {
  try {
    return await stat(path);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return { size: 0, mtimeMs: 0 };
    throw error;
  }
}
