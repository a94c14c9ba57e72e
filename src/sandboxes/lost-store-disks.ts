/** Removes disks in the store of a home that no container has any more. */

import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import { listStoreDisks, removeStoreDisk } from "../engine/storage/store-disks.ts";

/** A container, or a probe in the home itself, has its folder before its disk. Returns their names. */
export async function removeLostStoreDisks(
  { home, onFailure }: { readonly home: string; readonly onFailure: TellFailure },
  listContainers: () => Promise<readonly string[]>,
): Promise<string[]> {
  const disks = await listStoreDisks(home);
  if (disks.length === 0) return [];
  const containers = (await listContainers()).map((directory) => basename(directory));
  const kept = new Set([...containers, ...(await readdir(home))]);
  const names = disks.filter((name) => !kept.has(name));
  const remove = async (name: string) => removeStoreDisk(home, name);
  return cleanUp({ kind: "sandbox", names, remove }, onFailure);
}
