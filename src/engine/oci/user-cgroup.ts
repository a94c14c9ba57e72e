/**
 * The cgroup of an ordinary user's container where a part of the tree is delegated to the user. A
 * file of the container's folder names it, since another process of the user, which ends or adopts
 * the container, may have another part or none; without the file signals stand in for a cgroup.
 */

import { basename, dirname, isAbsolute, join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readKernelFile, writeWhole } from "../../common/files.ts";
import type { ContainerLimits } from "../engine.ts";
import { makeGroupFolder, openFolders } from "./cgroup-folders.ts";
import { makeParent, writeControl, type Delegation } from "./delegation.ts";
import { openProcessGroup, type Cgroup } from "./process-group.ts";

/** In the folder of a container: the folder of its cgroup, for other processes and the guardian. */
export const GROUP_NAME = "cgroup";

const CPU_PERIOD_US = 100_000;
const BYTES_PER_MB = 1024 * 1024;

/** What holds the container with this id, of this folder, at each call. */
export function openUserCgroup(
  delegation: Delegation | undefined,
  id: string,
  directory: string,
): Cgroup {
  const signals = openProcessGroup(id, directory);
  const current = () => {
    const unified = readFolder(id, directory);
    return unified === undefined ? signals : openFolders({ id, unified, all: [unified] });
  };
  return {
    path: "",
    get unified() {
      return current().unified;
    },
    make: async (limits) => {
      if (delegation === undefined) return;
      const folder = join(delegation.folder, id);
      await writeWhole(join(directory, GROUP_NAME), `${folder}\n`);
      // One that is there is of a start that was broken off: its limits are set again.
      await makeGroupFolder(folder, makeParent);
      setLimits(folder, limits, delegation);
    },
    freeze: async () => current().freeze(),
    thaw: async () => current().thaw(),
    isFrozen: async () => current().isFrozen(),
    isPopulated: async () => current().isPopulated(),
    kill: async () => current().kill(),
    readMemoryLimit: async () => current().readMemoryLimit(),
    countOutOfMemory: async () => current().countOutOfMemory(),
    readUsage: async () => current().readUsage(),
    remove: async () => current().remove(),
  };
}

/**
 * Refuses a container whose first process is not in the cgroup that limits it.
 * @throws SandboxError unavailable
 */
export function verifyGroup(pid: number, { path, unified }: Cgroup): void {
  if (path !== "" || unified === undefined) return;
  const own = /^0::(.*)$/m.exec(readKernelFile(`/proc/${pid}/cgroup`) ?? "")?.[1] ?? "";
  if (own.endsWith(`/${basename(dirname(unified))}/${basename(unified)}`)) return;
  throw new SandboxError("unavailable", "container is not in its cgroup");
}

/** Undefined for a container that was started where nothing is delegated. */
function readFolder(id: string, directory: string): string | undefined {
  const folder = readKernelFile(join(directory, GROUP_NAME))?.trimEnd();
  if (folder === undefined || !isAbsolute(folder) || basename(folder) !== id) return undefined;
  return folder;
}

/** No swap: what a container may not hold in memory it may not hold at all. */
function setLimits(folder: string, limits: ContainerLimits, { controllers }: Delegation): void {
  const quota = Math.round(limits.cpus * CPU_PERIOD_US);
  setLimit(folder, "memory.max", String(limits.memoryMb * BYTES_PER_MB));
  setLimit(folder, "pids.max", String(limits.pids));
  if (controllers.includes("cpu")) setLimit(folder, "cpu.max", `${quota} ${CPU_PERIOD_US}`);
  // A kernel that does not count swap has no such file.
  if (readKernelFile(join(folder, "memory.swap.max")) !== undefined) {
    setLimit(folder, "memory.swap.max", "0");
  }
}

function setLimit(folder: string, name: string, value: string): void {
  const path = join(folder, name);
  try {
    writeControl(path, value);
  } catch (error) {
    throw new SandboxError("unavailable", `${name} cannot be set`, { cause: error });
  }
  const held = readKernelFile(path)?.trim();
  if (held !== value) throw new SandboxError("unavailable", `${name} is ${held}`);
}
