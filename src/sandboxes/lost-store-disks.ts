/** Removes disks in the store of a home that no container has any more. */

import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import { listStoreDisks, removeStoreDisk } from "../engine/storage/store-disks.ts";

type ListContainers = () => Promise<readonly string[]>;

/** Returns their names. A store that cannot be read is told and stops nothing else. */
export async function removeLostStoreDisks(
  { home, onFailure }: { readonly home: string; readonly onFailure: TellFailure },
  listContainers: ListContainers,
): Promise<string[]> {
  try {
    const names = await findLost(home, listContainers);
    const remove = async (name: string) => removeStoreDisk(home, name);
    return await cleanUp({ kind: "sandbox", names, remove }, onFailure);
  } catch (error) {
    onFailure({ kind: "sandbox", name: "disks in the store", error });
    return [];
  }
}

/** A container, or a probe in the home itself, has its folder before its disk. */
async function findLost(home: string, listContainers: ListContainers): Promise<string[]> {
  const disks = await listStoreDisks(home);
  if (disks.length === 0) return [];
  const containers = (await listContainers()).map((directory) => basename(directory));
  const kept = new Set([...containers, ...(await readdir(home))]);
  return disks.filter((name) => !kept.has(name));
}
