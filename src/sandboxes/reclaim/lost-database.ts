/**
 * A database that is new in a home that is not: the rows of its snapshots, volumes and the sandboxes
 * that outlive their service are lost, and a clean-up would remove all of them as things without an
 * owner.
 */

import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { listFolder } from "../../common/files.ts";
import type { Store } from "../../store/store.ts";
import { UUID_PATTERN } from "../../wire/address.ts";
import { wasServed } from "../secrets.ts";

/** Where a home has what only rows tell the owner of. Built-in templates and images are no such things. */
const PLACES = ["layers", "volumes", "volume-disks", "store/snapshots", "memory"] as const;
/** Those of stdio servers end with them. */
const SANDBOXES = "instances/serve/s";
/** What holds these; that of the store is in its image while no service has the home open. */
const HOLDERS = [
  "layers",
  "volumes",
  "volume-disks",
  "memory",
  "store",
  "store.img",
  "instances/serve",
] as const;
const SANDBOX_PATTERN = /^[a-z0-9]+$/;

/**
 * Called before anything of a home is removed. Of sandboxes whose home was removed by hand the disks
 * are still mounted. A guardian ends those that run once their files are gone, so that goes first.
 * @throws SandboxError failed_precondition when its database has never been that of a service, and
 * snapshots, volumes or sandboxes of `serve` are there.
 */
export async function requireKnownContent(home: string, store: Store): Promise<void> {
  if (wasServed(store)) return;
  for (const place of [...PLACES, SANDBOXES]) {
    const pattern = place === SANDBOXES ? SANDBOX_PATTERN : UUID_PATTERN;
    const names = (await listFolder(join(home, place))).filter((name) => pattern.test(name));
    if (names.length === 0) continue;
    const message = `the database of the home is new, but ${place} has ${names.length} of an earlier one`;
    throw new SandboxError("failed_precondition", message, {
      hint:
        `restore state.db from a backup, or remove ${HOLDERS.join(", ")} from the home to begin anew; ` +
        "where rm says that a directory is busy, umount it and repeat",
    });
  }
}
