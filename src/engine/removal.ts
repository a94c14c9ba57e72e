/** Takes away every trace of one container, from its folder and its id alone, however it ended. */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { toSandboxError } from "../common/errors.ts";
import type { Cgroup } from "./cgroups.ts";
import { DISK_NAMES, unmountBelow } from "./disk.ts";
import { draftOf, removeEmpty } from "./files.ts";
import { releaseIds } from "./ids.ts";
import { SOCKET_NAMES } from "./network.ts";
import { RECORD_NAME } from "./record.ts";

/** What the engine keeps in a container's folder, besides sockets, record and disk. */
export const FOLDER_NAMES = {
  config: "config.json",
  /** The runtime alone writes here: its state, its log, the number of the first process. */
  runtime: "runtime",
} as const;

const REMOVABLE = [
  ...Object.values(SOCKET_NAMES),
  ...Object.values(FOLDER_NAMES),
  RECORD_NAME,
  draftOf(RECORD_NAME),
  DISK_NAMES.image,
];

/**
 * Ends the container's processes, then removes its mounts, cgroups, id range and folder. Idempotent.
 * A file that is not the engine's stays, and its folder with it.
 * @throws SandboxError deadline_exceeded when a process does not end, internal when a file stays.
 */
export async function removeContainer(directory: string, cgroup: Cgroup): Promise<void> {
  try {
    await cgroup.kill();
    await unmountBelow(directory);
    await cgroup.remove();
    for (const name of REMOVABLE) {
      await rm(join(directory, name), { recursive: true, force: true });
    }
    // Never recursive: were it still mounted, that would empty a disk that somebody uses.
    await removeEmpty(join(directory, DISK_NAMES.mount));
    await removeEmpty(directory);
    await releaseIds(directory);
  } catch (error) {
    throw toSandboxError(error, "container was not removed");
  }
}
