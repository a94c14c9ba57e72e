/**
 * Disks of containers and volumes in the store of a home. The store is a file system of its own: after a
 * power cut it can have a disk whose folder the home has not, because it was new there or removed, and a
 * copy of a home has the disks of all containers that it forgot.
 */

import { join } from "node:path";
import { listFolder } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { findDisksFolder } from "./store-image.ts";

type Place = NonNullable<Parameters<typeof findDisksFolder>[1]>;

/** Names of the containers or volumes that have one; none where no store is mounted. */
export async function listStoreDisks(home: string, of: Place): Promise<string[]> {
  const folder = await findDisksFolder(home, of);
  return folder === undefined ? [] : listFolder(folder);
}

/** Removes one that no container and no volume has; idempotent. */
export async function removeStoreDisk(home: string, of: Place, name: string): Promise<void> {
  const folder = await findDisksFolder(home, of);
  if (folder !== undefined) await removeTree(join(folder, name));
}
