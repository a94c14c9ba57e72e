/** Whether a snapshot carries the memory of programs, where it lies, and who goes on from it. */

import { basename, isAbsolute, join, resolve } from "node:path";
import type { BuildRecord, SandboxRecord } from "../../store/store.ts";
import type { SandboxEntry, Tenant } from "../context.ts";
import { SNAPSHOT_MEMORY } from "./layer-folders.ts";

/** What is said of a start or of a snapshot: programs go on; else why they do not. */
export type CarriedMemory = NonNullable<SandboxRecord["memory"]>;

const FILES_ALONE = "files alone were asked for";
const HAS_VOLUMES = "a volume is mounted, whose files others change";
/** The memory of programs names files that stay as they are. */
const HOST_FILES = "its template has files of the machine, which can change";
export const SAVE_FAILED = "the memory could not be saved";
export const DAEMON_SILENT = "the daemon of the sandbox does not answer";
const OTHER_TEAM = "the snapshot is of another team";

/** Why a snapshot of a sandbox has no memory; undefined when one is to be made with it. */
export function findMemoryFault(
  { container, record }: Pick<SandboxEntry, "container" | "record">,
  parent: BuildRecord,
  keepsMemory: boolean,
): string | undefined {
  if (!keepsMemory) return FILES_ALONE;
  if (container.memoryFault !== undefined) return container.memoryFault;
  if (record.volumeMounts.length > 0) return HAS_VOLUMES;
  return parent.layers.some(({ root }) => isAbsolute(root)) ? HOST_FILES : undefined;
}

export function memoryOf(build: Pick<BuildRecord, "memory">): CarriedMemory {
  const { memory } = build;
  if (memory === undefined) return { isCarried: false };
  return "folder" in memory ? { isCarried: true } : { isCarried: false, reason: memory.fault };
}

/** The memory of a build as its row has it. */
export function toMemory({ team }: Pick<Tenant, "team">, buildId: string) {
  return { folder: join(SNAPSHOT_MEMORY, buildId), team };
}

function filesAlone(reason: string): { readonly carried: CarriedMemory } {
  return { carried: { isCarried: false, reason } };
}

interface MemoryStart {
  readonly build: BuildRecord;
  readonly keepsMemory: boolean;
  readonly mounts: SandboxRecord["volumeMounts"];
}

/**
 * From which folder a start goes on, and what is said of it: undefined for a template, whose programs
 * never ran.
 */
export function planMemory(
  { team, layersDirectory }: Pick<Tenant, "team"> & { readonly layersDirectory: string },
  { build, keepsMemory, mounts }: MemoryStart,
): { readonly folder?: string; readonly carried: CarriedMemory } | undefined {
  const { memory } = build;
  if (memory === undefined) return undefined;
  const carried = memoryOf(build);
  if (!("folder" in memory)) return { carried };
  // In homes of older versions a template may have that of the snapshot below it, which goes with that.
  if (basename(memory.folder) !== build.buildId) return undefined;
  if (!keepsMemory) return filesAlone(FILES_ALONE);
  // Secrets of programs are for those alone who could read them before.
  if (memory.team !== team) return filesAlone(OTHER_TEAM);
  if (mounts.length > 0) return filesAlone(HAS_VOLUMES);
  return { folder: resolve(layersDirectory, memory.folder), carried };
}
