/** Copies of a container: its files, and with them the memory of its programs where it can be had. */

import { SandboxError } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";
import type { Container } from "../engine.ts";
import { saveMemory, type MemorySource, type OnFrozen } from "../gvisor/checkpoint.ts";
import type { Connections } from "../network/connections.ts";
import { copyDisk } from "../storage/disk-copy.ts";
import { makeLayer } from "../storage/layers.ts";
import { copyUpper, whileFrozen } from "../storage/snapshot.ts";
import type { ContainerRecord } from "./container-record.ts";
import type { Cgroup } from "./process-group.ts";
import { runsProgramOf } from "./verify-container.ts";

/** What saves the memory of programs; else why nothing does. */
export type MemorySaver = Pick<MemorySource, "runtime" | "flags" | "keys" | "daemon"> | string;

export interface CopyParts {
  readonly directory: string;
  readonly cgroup: Cgroup;
  readonly perlDirectory: string;
  readonly memory: MemorySaver;
  readonly connections: Connections;
  /** As it is now. */
  readonly record: () => ContainerRecord;
}

export function createCopies(parts: CopyParts): Pick<Container, "snapshot" | "copyDisk"> {
  const source = (onFrozen: OnFrozen | undefined) => {
    const { directory, cgroup, perlDirectory } = parts;
    const { idBase, diskIdBase = idBase } = parts.record();
    return { directory, idBase: diskIdBase, cgroup, perlDirectory, onFrozen };
  };
  return {
    snapshot: async (target, saved) =>
      withMemory(parts, saved, async (onFrozen) =>
        makeLayer(target, async (draft) => copyUpper(source(onFrozen), draft)),
      ),
    ...(!isRootless() && {
      copyDisk: async (target: string, saved?: string) =>
        withMemory(parts, saved, async (onFrozen) => copyDisk(source(onFrozen), target)),
    }),
  };
}

const OTHER_RUNTIME = "the sandbox runs on another runsc than the one that is installed now";
const OTHER_SERVICE = "the sandbox was started by another version of this service";

/**
 * Why the memory of a container is not saved. What one runtime saves another one does not bring back,
 * and a start has the present daemon's directory alone: a container may be older than either.
 */
export function findSaveFault(
  memory: MemorySaver,
  { pid, isHalted, daemon }: Pick<ContainerRecord, "pid" | "isHalted" | "daemon">,
): string | undefined {
  if (typeof memory === "string") return memory;
  if (isHalted) return undefined;
  if (daemon !== memory.daemon) return OTHER_SERVICE;
  return runsOn(pid, memory.runtime) ? undefined : OTHER_RUNTIME;
}

/** True also where that cannot be seen, as of one that has just ended. */
function runsOn(pid: number, runtime: string): boolean {
  try {
    return runsProgramOf(pid, runtime);
  } catch {
    return true;
  }
}

/** Makes the folder `target` with the memory alone, durably; a paused container stays paused. */
export async function copyMemory(parts: CopyParts, target: string): Promise<void> {
  await withMemory(parts, target, async (onFrozen) => {
    await whileFrozen({ cgroup: parts.cgroup, onFrozen }, async () => undefined);
    return true;
  });
}

async function withMemory<T>(
  parts: CopyParts,
  target: string | undefined,
  take: (onFrozen?: OnFrozen) => Promise<T>,
): Promise<T> {
  if (target === undefined) return take();
  const { memory, record, ...shared } = parts;
  const fault = findSaveFault(memory, record());
  if (typeof memory === "string" || fault !== undefined) {
    throw new SandboxError("unimplemented", fault ?? "");
  }
  const { id, secret = "" } = record();
  return saveMemory({ ...memory, ...shared, id, secret }, target, take);
}
