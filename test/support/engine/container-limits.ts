/** Figures of a container's cgroup, in the trees of whichever version the machine has. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readMounts } from "../../../src/engine/host/mount-table.ts";
import { locateCgroups } from "../../../src/engine/oci/cgroups.ts";

export interface ContainerLimits {
  readonly memory: number;
  readonly memoryAndSwap: number;
  /** Microseconds in each tenth of a second. */
  readonly cpuQuota: number;
  readonly pids: number;
}

type Trees = ReturnType<typeof locateCgroups>;
type Controller = "memory" | "cpu" | "pids";

/** Reads figures of one container; a hybrid machine has limits in its trees of version 1. */
export async function openLimits(id: string, given?: Trees) {
  const { unified = "", legacy } = given ?? locateCgroups(await readMounts());
  const isLegacy = legacy.length > 0;

  function folderOf(controller: Controller): string {
    const tree = legacy.find(({ controllers }) => controllers.includes(controller));
    return join(isLegacy ? (tree?.path ?? "") : unified, "sandbox-mcp", id);
  }

  /** The text of a file, which has another name in each version. */
  async function read(controller: Controller, name: string, unifiedName = name): Promise<string> {
    const path = join(folderOf(controller), isLegacy ? name : unifiedName);
    return (await readFile(path, "utf8")).trim();
  }

  async function readSwap(memory: number): Promise<number> {
    if (isLegacy) return Number(await read("memory", "memory.memsw.limit_in_bytes"));
    // A kernel without swap has no such file.
    if (!existsSync(join(folderOf("memory"), "memory.swap.max"))) return memory;
    return memory + Number(await read("memory", "memory.swap.max"));
  }

  const limits = async (): Promise<ContainerLimits> => {
    const memory = Number(await read("memory", "memory.limit_in_bytes", "memory.max"));
    const [cpuQuota] = (await read("cpu", "cpu.cfs_quota_us", "cpu.max")).split(" ").map(Number);
    const pids = Number(await read("pids", "pids.max"));
    return { memory, memoryAndSwap: await readSwap(memory), cpuQuota: cpuQuota ?? NaN, pids };
  };

  return { folderOf, read, limits };
}
