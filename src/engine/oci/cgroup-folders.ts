/**
 * One container's folders in the cgroup trees: freezing, ending and counting its processes by the
 * kernel's files. Where the host has a unified tree, even beside old ones, we freeze and kill in it.
 */

import { mkdir, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { causeCode, isCode, SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { readCacheBytes } from "../../common/page-cache.ts";
import type { Usage } from "../engine.ts";
import { signalProcess } from "../host/run-program.ts";
import { freezeOrThaw, waitUntil, type Cgroup } from "./process-group.ts";

/** Freezing waits for tasks that are inside the kernel, for instance writing to a slow disk. */
const FREEZE_TIMEOUT_MS = 5_000;
/** The kernel ends a task when its call returns; on a machine under load a crowd of them takes longer. */
const KILL_TIMEOUT_MS = 30_000;
const REMOVE_TIMEOUT_MS = 2_000;
/** Another instance may take the empty parent away between two of our calls. */
const MAX_MAKE_ATTEMPTS = 5;

/** The folders of one container, one in each tree. */
export interface CgroupFolders {
  readonly id: string;
  /** In the version 2 tree. */
  readonly unified?: string | undefined;
  /** In version 1 trees, by their controllers. */
  readonly freezer?: string | undefined;
  readonly memory?: string | undefined;
  readonly processor?: string | undefined;
  /** All of them, with those of other controllers. */
  readonly all: readonly string[];
}

/** What is done with a container by its folders. */
export function openFolders(folders: CgroupFolders): Omit<Cgroup, "path" | "make"> {
  const { id, unified } = folders;
  const memory = folders.memory ?? unified;
  const states = statesOf(folders);
  return {
    get unified() {
      return isInUnified(folders) ? unified : undefined;
    },
    ...states,
    freeze: async () => freezeOrThaw(states.freeze, states.thaw),
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
    readUsage: async () => readUsage(folders),
    remove: async () => {
      for (const folder of folders.all) await removeFolder(folder);
    },
  };
}

/** Makes a folder and its parent, which the last container of another service may take away. */
export async function makeGroupFolder(
  folder: string,
  makeParent: (parent: string) => void | Promise<void> = makeIfMissing,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      // Not recursive: in a file system of the kernel that may never return.
      await makeParent(dirname(folder));
      await makeIfMissing(folder);
      return;
    } catch (error) {
      if (attempt === MAX_MAKE_ATTEMPTS || !isCode(error, "ENOENT")) throw error;
    }
  }
}

async function makeIfMissing(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
}

function read(folder: string | undefined, name: string): string {
  return readKernelFile(join(folder ?? "", name)) ?? "";
}

function readUsage({
  unified,
  processor,
  memory,
}: CgroupFolders): Pick<Usage, "cpuMs" | "memoryBytes" | "cacheBytes"> {
  const micros = () => /^usage_usec (\d+)$/m.exec(read(unified, "cpu.stat"))?.[1] ?? 0;
  const usedBytes =
    memory === undefined ? read(unified, "memory.current") : read(memory, "memory.usage_in_bytes");
  const cacheBytes = readCacheBytes(read(memory ?? unified, "memory.stat"));
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

/** A container that was made while the version 2 tree was not mounted is in the old freezer alone. */
function isInUnified({ unified, freezer }: CgroupFolders): boolean {
  return unified !== undefined && (isGroup(unified) || !isGroup(freezer));
}

function statesOf(folders: CgroupFolders): States {
  const { unified = "", freezer } = folders;
  const found = { unified: unifiedStates(unified), legacy: legacyStates(freezer) };
  const current = () => (isInUnified(folders) ? found.unified : found.legacy);
  return {
    freeze: async () => current().freeze(),
    thaw: async () => current().thaw(),
    isFrozen: async () => current().isFrozen(),
    isPopulated: async () => current().isPopulated(),
    kill: async () => current().kill(),
  };
}

function isGroup(folder: string | undefined): boolean {
  return folder !== undefined && readKernelFile(join(folder, "cgroup.procs")) !== undefined;
}

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
      for (const pid of await processes()) signalProcess(Number(pid), "SIGKILL");
      await writeControl(stateFile, "THAWED");
    },
  };
}

async function writeControl(path: string, value: string): Promise<void> {
  try {
    await writeFile(path, value);
  } catch (error) {
    throw new SandboxError("unavailable", "container is gone", { cause: error });
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
