/** The times to live that a service leaves its guardian, one in the folder of each container. */

import { join } from "node:path";
import { listFolder, readIfThere } from "../../common/files.ts";
import { DEADLINE_NAME } from "./remove-container.ts";

const MS_PER_S = 1_000;

/** Whether one of the containers below this folder has a time to live that is not over. */
export async function hasTimeLeft(directory: string, nowMs: number): Promise<boolean> {
  for (const name of await listFolder(directory)) {
    const text = await readIfThere(join(directory, name, DEADLINE_NAME));
    if (text !== undefined && Number.parseInt(text, 10) * MS_PER_S > nowMs) return true;
  }
  return false;
}
