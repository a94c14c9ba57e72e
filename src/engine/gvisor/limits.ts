/**
 * The limits of a container whose runtime sets none in cgroups that are there before it: written by
 * the engine, in whichever trees the machine has.
 */

import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { toSandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import type { ContainerLimits } from "../engine.ts";
import type { CgroupHost } from "../oci/cgroups.ts";

const BYTES_PER_MB = 1024 * 1024;
const CPU_PERIOD_US = 100_000;
/**
 * Each process inside is one of the host with some threads, and the kernel inside has threads of its
 * own: it ends, and all of the container with it, where it gets no more of them. The limit on the
 * container's own processes is met first.
 */
const TASKS_PER_PROCESS = 4;
const KERNEL_TASKS = 256;

/** Writes the limits into the folders of a container's cgroup, which were just made. */
export async function writeLimits(
  host: CgroupHost,
  path: string,
  limits: ContainerLimits,
): Promise<void> {
  try {
    for (const { controllers, path: tree } of host.legacy) {
      const folder = join(tree, path);
      for (const controller of controllers) await writeLegacy(controller, folder, { host, limits });
    }
    if (host.legacy.length === 0 && host.unified !== undefined) {
      await writeUnified(host.unified, join(host.unified, path), limits);
    }
  } catch (error) {
    throw toSandboxError(error, "limits were not set");
  }
}

function tasksOf({ pids }: ContainerLimits): number {
  return pids * TASKS_PER_PROCESS + KERNEL_TASKS;
}

async function writeLegacy(
  controller: string,
  folder: string,
  { host, limits }: { readonly host: CgroupHost; readonly limits: ContainerLimits },
): Promise<void> {
  const write = async (name: string, value: number) => writeFile(join(folder, name), `${value}`);
  if (controller === "memory") {
    await write("memory.limit_in_bytes", limits.memoryMb * BYTES_PER_MB);
    if (host.hasSwapLimit) {
      await write("memory.memsw.limit_in_bytes", limits.memoryMb * BYTES_PER_MB);
    }
  }
  if (controller === "cpu") {
    await write("cpu.cfs_period_us", CPU_PERIOD_US);
    await write("cpu.cfs_quota_us", Math.round(limits.cpus * CPU_PERIOD_US));
  }
  if (controller === "pids") await write("pids.max", tasksOf(limits));
  if (controller === "cpuset") await inheritCpus(folder);
}

/** A new folder of this tree takes no process before it has processors and memory. */
async function inheritCpus(folder: string): Promise<void> {
  const parent = dirname(folder);
  for (const name of ["cpuset.cpus", "cpuset.mems"]) {
    const upper = readKernelFile(join(dirname(parent), name)) ?? "";
    for (const place of [parent, folder]) {
      if (readKernelFile(join(place, name))?.trim() === "")
        await writeFile(join(place, name), upper);
    }
  }
}

async function writeUnified(tree: string, folder: string, limits: ContainerLimits): Promise<void> {
  for (const upper of [tree, dirname(folder)]) {
    await writeFile(join(upper, "cgroup.subtree_control"), "+cpu +memory +pids");
  }
  const write = async (name: string, value: string) => writeFile(join(folder, name), value);
  await write("memory.max", `${limits.memoryMb * BYTES_PER_MB}`);
  if (readKernelFile(join(folder, "memory.swap.max")) !== undefined) {
    await write("memory.swap.max", "0");
  }
  await write("cpu.max", `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`);
  await write("pids.max", `${tasksOf(limits)}`);
}
