/** The folders of a home in which a registry keeps its sandboxes, layers and volumes. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Folders } from "./context.ts";
import { SNAPSHOT_DISKS } from "./layer-folders.ts";
import { containersDirectory } from "./reclaim.ts";

/** Makes those of the instance `owner`. */
export async function makeFolders(
  home: string,
  owner: string,
): Promise<Omit<Folders, "copies" | "volumeDisks">> {
  const layersDirectory = join(home, "layers");
  const volumesDirectory = join(home, "volumes");
  const directory = containersDirectory(home, owner);
  for (const folder of [volumesDirectory, layersDirectory, directory])
    await mkdir(folder, { recursive: true, mode: 0o700 });
  // Made by the first snapshot that needs it.
  const disksDirectory = join(layersDirectory, SNAPSHOT_DISKS);
  return { home, directory, layersDirectory, disksDirectory, volumesDirectory };
}
