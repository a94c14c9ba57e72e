/** The folders of layers that builds stand on, and those that nothing stands on any more. */

import { isAbsolute, join, resolve, sep } from "node:path";
import { removeTree } from "../common/remove-tree.ts";
import type { Layer } from "../engine/engine.ts";
import type { BuildRecord, Store } from "../store/store.ts";

/** The layers of a build, bottom first, with absolute paths. */
export function toLayers(layersDirectory: string, build: BuildRecord): Layer[] {
  return build.layers.map(({ root, usr }) => ({
    root: resolve(layersDirectory, root),
    ...(usr !== undefined && { usr: resolve(layersDirectory, usr) }),
  }));
}

/** The folders of a build below the folder of layers. */
export function layerFolders(build: BuildRecord): string[] {
  return build.layers
    .flatMap(({ root, usr }) => (usr === undefined ? [root] : [root, usr]))
    .filter((path) => !isAbsolute(path))
    .flatMap((path) => path.split(sep).slice(0, 1));
}

/** How many layers, from the bottom, are those of a built-in template and not of snapshots. */
export function countBuiltIn(build: BuildRecord): number {
  const first = build.layers.findIndex(({ root }) =>
    SNAPSHOT_PATTERN.test(root.split(sep)[0] ?? ""),
  );
  return first === -1 ? build.layers.length : first;
}

/** Snapshots are written to a folder named for their build, under another ending until whole. */
const SNAPSHOT_PATTERN = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.[a-z0-9]+)*$/;

/** Images are written to a folder named for their digest; only the holder of their lock removes one. */
const IMAGE_PATTERN = /^image-[0-9a-f]{32}-[0-9]+$/;

/** Which of these folders are images that no build names; `builds` were read after the folders. */
export function findUnusedImages(
  folders: readonly string[],
  builds: readonly BuildRecord[],
): string[] {
  const named = new Set(builds.flatMap(layerFolders));
  return folders.filter((folder) => IMAGE_PATTERN.test(folder) && !named.has(folder));
}

/** Which of these folders are snapshots that no build names; `builds` were read after the folders. */
export function findOrphans(folders: readonly string[], builds: readonly BuildRecord[]): string[] {
  const named = new Set(builds.flatMap(layerFolders));
  for (const { buildId, status } of builds) if (status === "building") named.add(buildId);
  return folders.filter((folder) => {
    const id = SNAPSHOT_PATTERN.exec(folder)?.[1];
    return id !== undefined && !named.has(id);
  });
}

/**
 * Of the folders of these builds, which are no rows any more, those that no other build names. An
 * image stays for \`pruneImages\`: another process may be about to name it.
 */
export function unnamedFolders(store: Store, removed: readonly BuildRecord[]): string[] {
  const kept = new Set(store.builds.all().flatMap(layerFolders));
  return removed
    .flatMap(layerFolders)
    .filter((folder) => !kept.has(folder) && !IMAGE_PATTERN.test(folder));
}

/** Removes folders of layers; the signal ends it half way, and the next clean-up does the rest. */
export async function removeLayers(
  layersDirectory: string,
  folders: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  for (const folder of folders) {
    await removeTree(join(layersDirectory, folder), signal === undefined ? {} : { signal });
  }
}
