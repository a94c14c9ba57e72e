/**
 * Removes disks in the store of a home that no container and no volume has any more. The store is a file
 * system of its own: after a power cut it can have a disk whose folder the home has not, because it was
 * new there or removed, and a copy of a home has the disks of all containers that it forgot.
 */

import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { listStoreDisks, removeStoreDisk } from "../../engine/storage/store-image.ts";
import { listVolumeDisks } from "../../engine/storage/volume-disk.ts";
import type { Store } from "../../store/store.ts";

type ListContainers = () => Promise<readonly string[]>;

interface Place {
  readonly home: string;
  readonly onFailure: TellFailure;
}

/** Returns their names. A store that cannot be read is told and stops nothing else. */
export async function removeLostStoreDisks(
  place: Place,
  listContainers: ListContainers,
): Promise<string[]> {
  const { home } = place;
  // A container, or a probe in the home itself, has its folder before its disk.
  return removeLost(place, "containers", async () => {
    const containers = (await listContainers()).map((directory) => basename(directory));
    return [...containers, ...(await readdir(home))];
  });
}

/** The same of volumes, of which neither row nor folder is there. */
export async function removeLostVolumeImages({
  store,
  ...place
}: Place & { readonly store: Pick<Store, "volumes"> }): Promise<string[]> {
  return removeLost(place, "volumes", async () => {
    const folders = await listVolumeDisks(place.home);
    const known = folders.map((name) => name.replace(/\.part$/, ""));
    return [...known, ...store.volumes.all().map(({ volumeId }) => volumeId)];
  });
}

const KINDS = { containers: "sandbox", volumes: "volume" } as const;

async function removeLost(
  { home, onFailure }: Place,
  of: keyof typeof KINDS,
  listKept: () => Promise<readonly string[]>,
): Promise<string[]> {
  const kind = KINDS[of];
  try {
    const names = await findLost(await listStoreDisks(home, of), listKept);
    const remove = async (name: string) => removeStoreDisk(home, of, name);
    return await cleanUp({ kind, names, remove }, onFailure);
  } catch (error) {
    onFailure({ kind, name: "disks in the store", error });
    return [];
  }
}

/** What is kept is read after the disks: what is new since has its folder before its disk. */
async function findLost(
  disks: readonly string[],
  listKept: () => Promise<readonly string[]>,
): Promise<string[]> {
  if (disks.length === 0) return [];
  const kept = new Set(await listKept());
  return disks.filter((name) => !kept.has(name));
}
