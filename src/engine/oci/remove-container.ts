/** Takes away every trace of one container, from its folder and its id alone, however it ended. */

import { join } from "node:path";
import { toSandboxError } from "../../common/errors.ts";
import { draftOf, removeEmpty } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { removeImages } from "../gvisor/remove-image.ts";
import { releaseIds } from "../host/id-ranges.ts";
import { SOCKET_NAMES } from "../network/container-sockets.ts";
import type { Routers } from "../network/router.ts";
import { flushDisk, removeDisk, syncDisk, unmountBelow } from "../storage/disk.ts";
import { PROCESS_NAME, readRecord, RECORD_NAME } from "./container-record.ts";
import { DEADLINE_NAME } from "./deadline.ts";
import type { Cgroup } from "./process-group.ts";
import { endRuntimeProcesses } from "./runtime-processes.ts";
import { GROUP_NAME } from "./user-cgroup.ts";

/** What the engine keeps in a container's folder, besides sockets, record and disk. */
export const FOLDER_NAMES = {
  config: "config.json",
  /** The runtime alone writes here: its state, its log, the number of the first process. */
  runtime: "runtime",
} as const;

/** The memory of a halted container is in a folder of this name, whole or as a draft. */
export const SAVED_NAME = "saved";

/** Of one run: gone when the container is halted. */
const OF_A_RUN = [
  ...Object.values(SOCKET_NAMES),
  ...Object.values(FOLDER_NAMES),
  PROCESS_NAME,
  GROUP_NAME,
  draftOf(GROUP_NAME),
];
const REMOVABLE = [
  ...OF_A_RUN,
  draftOf(PROCESS_NAME),
  RECORD_NAME,
  draftOf(RECORD_NAME),
  DEADLINE_NAME,
  draftOf(DEADLINE_NAME),
];

/**
 * Ends the container's processes and takes away what belongs to its run; disk, ids and record
 * stay. What was written is durable then. Idempotent.
 */
export async function haltContainer(
  directory: string,
  cgroup: Cgroup,
  routers: Routers,
): Promise<void> {
  try {
    await cgroup.kill();
    await step("halt.killed");
    await routers.disconnect(directory);
    await flushDisk(directory);
    await unmountBelow(directory);
    await step("halt.unmounted");
    await syncDisk(directory);
    await step("halt.synced");
    await cgroup.remove();
    for (const name of OF_A_RUN) await removeTree(join(directory, name));
    await step("halt.cleared");
  } catch (error) {
    throw toSandboxError(error, "container was not halted");
  }
}

/** The same for a start on that disk which was broken off: a runtime may still go on with it. */
export async function haltBrokenStart(
  directory: string,
  cgroup: Cgroup,
  routers: Routers,
): Promise<void> {
  await endStart(directory, cgroup);
  await haltContainer(directory, cgroup, routers);
}

/** First its own programs: they could imitate a runtime that starts it, again and again. */
async function endStart(directory: string, cgroup: Cgroup): Promise<void> {
  await cgroup.kill();
  await endRuntimeProcesses(directory, cgroup.path);
}

/**
 * Ends the container's processes, then removes its mounts, cgroups, id range and folder. Idempotent.
 * A file that is not the engine's stays, and its folder with it.
 * @throws SandboxError deadline_exceeded when a process does not end, internal when a file stays.
 */
export async function removeContainer(
  directory: string,
  cgroup: Cgroup,
  routers: Routers,
): Promise<void> {
  try {
    const record = await readRecord(directory);
    const mayBeStarting = record === undefined || record.unsyncedSince !== undefined;
    if (mayBeStarting) await endStart(directory, cgroup);
    await cgroup.kill();
    await step("removal.killed");
    // After the last process, and before the number of its ids is free for another container.
    await routers.disconnect(directory);
    await step("removal.disconnected");
    await unmountBelow(directory);
    await step("removal.unmounted");
    await cgroup.remove();
    await step("removal.ungrouped");
    await removeImages(join(directory, SAVED_NAME));
    for (const name of REMOVABLE) {
      await removeTree(join(directory, name));
    }
    await removeDisk(directory);
    await removeEmpty(directory);
    await step("removal.emptied");
    await releaseIds(directory);
    await step("removal.released");
  } catch (error) {
    throw toSandboxError(error, "container was not removed");
  }
}

/** Removes a container by its id and its folder. */
type Removal = (id: string, directory: string) => Promise<void>;

/** Two removals of one container at once are one: they would take away what the other works on. */
export function createRemoval(
  routers: Routers,
  open: (id: string, directory: string) => Promise<Cgroup>,
): Removal {
  const running = new Map<string, Promise<void>>();
  const begin: Removal = async (id, directory) => {
    try {
      await removeContainer(directory, await open(id, directory), routers);
    } finally {
      running.delete(directory);
    }
  };
  return async (id, directory) => {
    const removal = running.get(directory) ?? begin(id, directory);
    running.set(directory, removal);
    await removal;
  };
}
