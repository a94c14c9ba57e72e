/** The folders of layers that builds stand on, and those that nothing stands on any more. */

import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { DiskCopy, Layer } from "../../engine/engine.ts";
import { removeImage } from "../../engine/gvisor/remove-image.ts";
import { TRIAL_PREFIX } from "../../engine/storage/disk-copy.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { forgetLive } from "./live-builds.ts";

/** The layers of a build, bottom first, with absolute paths. */
export function toLayers(layersDirectory: string, build: BuildRecord): Layer[] {
  return build.layers.map(({ root, usr }) => ({
    root: resolve(layersDirectory, root),
    ...(usr !== undefined && { usr: resolve(layersDirectory, usr) }),
  }));
}

/** What the disks of a build's sandboxes begin with, with an absolute path. */
export function toDisk(layersDirectory: string, { disk }: BuildRecord): DiskCopy | undefined {
  return disk && { ...disk, image: resolve(layersDirectory, disk.image) };
}

/** Where the disk of a snapshot is from the folder of layers; its folder is named for the build. */
export const SNAPSHOT_DISKS = "../store/snapshots";
/** The same of its memory. */
export const SNAPSHOT_MEMORY = "../memory";

/** The folders of a build below the folder of layers, and those of its disk and memory beside it. */
export function layerFolders({ layers, disk, memory }: BuildRecord): string[] {
  const folders = layers
    .flatMap(({ root, usr }) => (usr === undefined ? [root] : [root, usr]))
    .filter((path) => !isAbsolute(path))
    .flatMap((path) => path.split(sep).slice(0, 1));
  const disks = disk === undefined ? [] : [dirname(disk.image)];
  const memories = memory !== undefined && "folder" in memory ? [memory.folder] : [];
  return [...folders, ...disks, ...memories];
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

/** Those of these folders, of a place beside the layers or among them, that no build names now. */
export function withoutBuild(store: Store, folders: readonly string[], place = ""): string[] {
  return folders.filter((folder) => !store.builds.hasFolder(join(place, folder)));
}

/** Whether one of these folders is an image, on which a template stands unless its last one was just removed. */
export function hasImage(folders: readonly string[]): boolean {
  return folders.some((folder) => IMAGE_PATTERN.test(folder));
}

/** Which of these folders are images that no build names now. */
export function findUnusedImages(folders: readonly string[], store: Store): string[] {
  const images = folders.filter((folder) => IMAGE_PATTERN.test(folder));
  return withoutBuild(store, images);
}

/** Builds that are read in one turn of the event loop; a thousand take some 20 ms. */
const BUILDS_AT_ONCE = 200;

/** Reads in many turns: what is added or changed meanwhile may be missing. */
export async function readBuilds({ builds }: Pick<Store, "builds">): Promise<BuildRecord[]> {
  const read: BuildRecord[] = [];
  for (;;) {
    const part = builds.after(read.at(-1)?.buildId ?? "", BUILDS_AT_ONCE);
    read.push(...part);
    if (part.length < BUILDS_AT_ONCE) return read;
    await nextTurn();
  }
}

/** Which of these folders are snapshots that no build names; `builds` were read after the folders. */
export function findOrphans(folders: readonly string[], builds: readonly BuildRecord[]): string[] {
  return folders.filter(isOrphan(builds, layerFolders));
}

/** The same of the folders of memory, which only the build of that name has. */
export function findOrphanMemory(
  folders: readonly string[],
  builds: readonly BuildRecord[],
): string[] {
  const isUnnamed = isOrphan(builds, ({ buildId, memory }) =>
    memory !== undefined && "folder" in memory ? [buildId] : [],
  );
  return folders.filter(isUnnamed);
}

/** The same of the folders of disks. */
export function findOrphanDisks(
  folders: readonly string[],
  builds: readonly BuildRecord[],
): string[] {
  const isUnnamed = isOrphan(builds, ({ disk }) =>
    disk === undefined ? [] : [basename(dirname(disk.image))],
  );
  return folders.filter((folder) => isUnnamed(folder) || folder.startsWith(TRIAL_PREFIX));
}

/** Whether a folder is that of a snapshot which no build names, or makes now. */
function isOrphan(
  builds: readonly BuildRecord[],
  namesOf: (build: BuildRecord) => readonly string[],
): (folder: string) => boolean {
  const named = new Set(builds.flatMap(namesOf));
  for (const { buildId, status } of builds) if (status === "building") named.add(buildId);
  return (folder) => {
    const id = SNAPSHOT_PATTERN.exec(folder)?.[1];
    return id !== undefined && !named.has(id);
  };
}

/** Where orphans may be, from the folder of layers, and what finds them among the folders there. */
export const ORPHAN_PLACES = [
  ["", findOrphans],
  [SNAPSHOT_DISKS, findOrphanDisks],
  [SNAPSHOT_MEMORY, findOrphanMemory],
] as const;

/**
 * Of the folders of these builds, which are no rows any more, those that no other build names. Their
 * live builds go with them. An image stays for `pruneImages`: another process may be about to name it.
 */
export function unnamedFolders(store: Store, removed: readonly BuildRecord[]): string[] {
  const all = [...removed, ...forgetLive(store, removed)];
  const folders = new Set(all.flatMap(layerFolders));
  return withoutBuild(
    store,
    [...folders].filter((folder) => !IMAGE_PATTERN.test(folder)),
  );
}

/** Removes folders of layers; the signal ends it half way, and the next clean-up does the rest. */
export async function removeLayers(
  layersDirectory: string,
  folders: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  for (const folder of folders) {
    await removeImage(join(layersDirectory, folder), signal);
  }
}
