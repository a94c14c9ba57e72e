/**
 * Freezing, ending and counting the processes of a container by writing cgroup files. The runtime
 * sets the limits; where the host has a unified tree, even beside old ones, we freeze and kill in it.
 */

import { mkdir, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { causeCode, SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import type { Usage } from "../engine.ts";
import { readMounts, type MountEntry } from "../host/mount-table.ts";
import { openProcessGroup, type Cgroup } from "./process-group.ts";

/** The folder in every hierarchy in which all our containers lie. */
const PARENT = "sandbox-mcp";
/** Freezing waits for tasks that are inside the kernel, for instance writing to a slow disk. */
const FREEZE_TIMEOUT_MS = 5_000;
const KILL_TIMEOUT_MS = 5_000;
const REMOVE_TIMEOUT_MS = 2_000;
const POLL_MS = 2;
/** Another instance may take the empty parent away between two of our calls. */
const MAX_MAKE_ATTEMPTS = 5;

/** Where this machine has its cgroup trees. */
export interface CgroupHost {
  /** The mount point of the version 2 tree. */
  readonly unified: string | undefined;
  /** The mount points of the version 1 trees, by the controllers that each one has. */
  readonly legacy: readonly { readonly controllers: readonly string[]; readonly path: string }[];
  /** Whether the kernel counts swap; where it does not, a runtime fails to limit it. */
  readonly hasSwapLimit: boolean;
}

/** Finds the trees of this machine; none that would not take orders from us. */
export async function readCgroupHost(): Promise<CgroupHost> {
  if (isRootless()) return { unified: undefined, legacy: [], hasSwapLimit: false };
  const trees = locateCgroups(await readMounts());
  const memory = trees.legacy.find(({ controllers }) => controllers.includes("memory"));
  const swapFile = join(memory?.path ?? "", "memory.memsw.limit_in_bytes");
  const hasSwapLimit = memory === undefined || readKernelFile(swapFile) !== undefined;
  return { ...trees, hasSwapLimit };
}

/** Finds the trees among the mounts. */
export function locateCgroups(mounts: readonly MountEntry[]): Omit<CgroupHost, "hasSwapLimit"> {
  const legacy = mounts.filter((mount) => mount.type === "cgroup");
  return {
    unified: mounts.find((mount) => mount.type === "cgroup2")?.target,
    legacy: legacy.map((mount) => ({
      controllers: mount.options.filter((option) => option !== "rw"),
      path: mount.target,
    })),
  };
}

/** Whether there is any tree to limit containers in. */
export function hasCgroups(host: CgroupHost): boolean {
  return host.unified !== undefined || host.legacy.length > 0;
}

/** A hybrid host: limits in version 1 trees, and a unified tree beside them. */
export function isHybrid(host: CgroupHost): boolean {
  return host.unified !== undefined && host.legacy.length > 0;
}

/** The folders of our containers' cgroups in the trees in which processes are ended. */
export function groupFolders(host: CgroupHost): { unified?: string; freezer?: string } {
  if (host.unified !== undefined) return { unified: join(host.unified, PARENT) };
  const tree = host.legacy.find(({ controllers }) => controllers.includes("freezer"));
  return tree === undefined ? {} : { freezer: join(tree.path, PARENT) };
}

/** The cgroups of the container with this id; what stands in for them where there are none. */
export function openCgroup(host: CgroupHost, id: string, directory: string): Cgroup {
  if (!hasCgroups(host)) return openProcessGroup(id, directory);
  const folderIn = (tree: string) => join(tree, PARENT, id);
  const unified = host.unified === undefined ? undefined : folderIn(host.unified);
  const freezer = legacyFolder(host, "freezer", id);
  const memory = legacyFolder(host, "memory", id) ?? unified;
  const trees = [...host.legacy.map((tree) => tree.path), ...(host.unified ? [host.unified] : [])];
  const folders = [...new Set(trees)].map(folderIn);
  const states = unified === undefined ? legacyStates(freezer) : unifiedStates(unified);
  return {
    path: `/${PARENT}/${id}`,
    unified,
    ...states,
    make: async () => {
      for (const folder of folders) await makeFolder(folder);
    },
    kill: async () => {
      await states.kill();
      const isEmpty = async () => !(await states.isPopulated());
      await waitUntil(isEmpty, KILL_TIMEOUT_MS, `processes of ${id} did not end`);
    },
    readMemoryLimit: async () => {
      const text =
        readKernelFile(join(memory ?? "", "memory.limit_in_bytes")) ??
        readKernelFile(join(memory ?? "", "memory.max"));
      return text === undefined || text.startsWith("max") ? undefined : Number(text);
    },
    countOutOfMemory: async () => {
      const events = readKernelFile(join(memory ?? "", "memory.events"));
      const control = readKernelFile(join(memory ?? "", "memory.oom_control"));
      const count = /^oom_kill (\d+)$/m.exec(events ?? control ?? "")?.[1];
      return count === undefined ? undefined : Number(count);
    },
    readUsage: async () => readUsage(host, { id, unified }),
    remove: async () => {
      for (const folder of folders) await removeFolder(folder);
    },
  };
}

function read(folder: string | undefined, name: string): string {
  return readKernelFile(join(folder ?? "", name)) ?? "";
}

function readUsage(
  host: CgroupHost,
  { id, unified }: { readonly id: string; readonly unified: string | undefined },
): Pick<Usage, "cpuMs" | "memoryBytes" | "cacheBytes"> {
  const processor = legacyFolder(host, "cpuacct", id);
  const memory = legacyFolder(host, "memory", id);
  const micros = () => /^usage_usec (\d+)$/m.exec(read(unified, "cpu.stat"))?.[1] ?? 0;
  const usedBytes =
    memory === undefined ? read(unified, "memory.current") : read(memory, "memory.usage_in_bytes");
  const stat = read(memory ?? unified, "memory.stat");
  const cacheBytes = Number(/^(?:file|total_cache) (\d+)$/m.exec(stat)?.[1] ?? 0);
  return {
    cpuMs:
      processor === undefined
        ? Number(micros()) / MICROS_PER_MS
        : Number(read(processor, "cpuacct.usage")) / NANOS_PER_MS,
    memoryBytes: Math.max(Number(usedBytes) - cacheBytes, 0),
    cacheBytes,
  };
}

const NANOS_PER_MS = 1_000_000;
const MICROS_PER_MS = 1_000;

type States = Pick<Cgroup, "freeze" | "thaw" | "isFrozen" | "isPopulated" | "kill">;

function unifiedStates(folder: string): States {
  const events = async () => readKernelFile(join(folder, "cgroup.events")) ?? "";
  const isFrozen = async () => (await events()).includes("frozen 1");
  const freezeFile = join(folder, "cgroup.freeze");
  return {
    isFrozen,
    isPopulated: async () => (await events()).includes("populated 1"),
    freeze: async () => {
      await writeControl(freezeFile, "1");
      await waitUntil(isFrozen, FREEZE_TIMEOUT_MS, "a process does not stop");
    },
    thaw: async () => writeControl(freezeFile, "0"),
    kill: async () => {
      // It reaches frozen processes too.
      if (readKernelFile(freezeFile) !== undefined) {
        await writeControl(join(folder, "cgroup.kill"), "1");
      }
    },
  };
}

/** A host without any unified tree: the old freezer, in which a signal waits for the thaw. */
function legacyStates(folder: string | undefined): States {
  const stateFile = join(folder ?? "", "freezer.state");
  const processes = async () => {
    const text = readKernelFile(join(folder ?? "", "cgroup.procs")) ?? "";
    return text.split("\n").filter((line) => line !== "");
  };
  const isFrozen = async () => readKernelFile(stateFile)?.trim() === "FROZEN";
  return {
    isFrozen,
    isPopulated: async () => (await processes()).length > 0,
    freeze: async () => {
      await writeControl(stateFile, "FROZEN");
      await waitUntil(isFrozen, FREEZE_TIMEOUT_MS, "a process does not stop");
    },
    thaw: async () => writeControl(stateFile, "THAWED"),
    kill: async () => {
      if (readKernelFile(stateFile) === undefined) return;
      // A process list that was taken while frozen is complete: no process can fork meanwhile.
      await writeControl(stateFile, "FROZEN");
      for (const pid of await processes()) signalProcess(Number(pid));
      await writeControl(stateFile, "THAWED");
    },
  };
}

function legacyFolder(host: CgroupHost, controller: string, id: string): string | undefined {
  const tree = host.legacy.find(({ controllers }) => controllers.includes(controller));
  return tree === undefined ? undefined : join(tree.path, PARENT, id);
}

function signalProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (causeCode(error) !== "ESRCH") throw error;
  }
}

async function writeControl(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value);
  } catch (error) {
    throw new SandboxError("unavailable", "container is gone", { cause: error });
  }
}

async function waitUntil(
  isDone: () => Promise<boolean>,
  timeoutMs: number,
  complaint: string,
): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await isDone())) {
    if (performance.now() > endMs) throw new SandboxError("deadline_exceeded", complaint);
    await delay(POLL_MS);
  }
}

/** The last container of another service may take the folder of all away meanwhile. */
async function makeFolder(folder: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      // Not recursive: in a file system of the kernel that may never return.
      await ifMissing(mkdir(dirname(folder)));
      await ifMissing(mkdir(folder));
      return;
    } catch (error) {
      if (attempt === MAX_MAKE_ATTEMPTS || causeCode(error) !== "ENOENT") throw error;
    }
  }
}

async function ifMissing(making: Promise<unknown>): Promise<void> {
  try {
    await making;
  } catch (error) {
    if (causeCode(error) !== "EEXIST") throw error;
  }
}

async function removeFolder(folder: string): Promise<void> {
  const isGone = async () => {
    const code = await tryRemove(folder);
    return code === undefined || code === "ENOENT";
  };
  // A process that was just reaped may still be counted for a moment.
  await waitUntil(isGone, REMOVE_TIMEOUT_MS, `cgroup stays busy: ${folder}`);
  // It stays while other containers are in it.
  await tryRemove(dirname(folder));
}

async function tryRemove(folder: string): Promise<string | undefined> {
  try {
    await rmdir(folder);
    return undefined;
  } catch (error) {
    const code = causeCode(error);
    if (code === "EBUSY" || code === "ENOTEMPTY" || code === "ENOENT") return code;
    throw error;
  }
}
