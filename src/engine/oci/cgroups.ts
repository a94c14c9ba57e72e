/**
 * The cgroup trees of this machine and the place of our containers in them. The runtime sets the
 * limits; without root we do, where a part of the tree is delegated to the user.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { canWrite, readKernelFile } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import type { LauncherStep } from "../host/launcher.ts";
import { readMounts, type MountEntry } from "../host/mount-table.ts";
import { makeGroupFolder, openFolders } from "./cgroup-folders.ts";
import { CONTROLLERS, PARENT, type Delegation } from "./delegation.ts";
import type { Cgroup } from "./process-group.ts";
import { openUserCgroup } from "./user-cgroup.ts";

const CGROUP_FOLDER = "/sys/fs/cgroup";
const BYTES_PER_MB = 1024 * 1024;
/** What sockets of a container may hold besides its memory; the kernel itself allows a tenth to TCP. */
const BUFFER_SHARE = 0.25;

/** Where this machine has its cgroup trees. */
export interface CgroupHost {
  /** The mount point of the version 2 tree. */
  readonly unified: string | undefined;
  /** The mount points of the version 1 trees, by the controllers that each one has. */
  readonly legacy: readonly { readonly controllers: readonly string[]; readonly path: string }[];
  /** Whether the kernel counts swap; where it does not, a runtime fails to limit it. */
  readonly hasSwapLimit: boolean;
  /** Without root: where limits hold all the same. */
  readonly delegation?: Delegation | undefined;
}

/** Finds the trees of this machine; none that would not take orders from us. */
export async function readCgroupHost(delegation?: Delegation): Promise<CgroupHost> {
  if (isRootless()) return { unified: undefined, legacy: [], hasSwapLimit: false, delegation };
  const mounts = await readMounts();
  // One that another mount covers is in the table and cannot be reached; containers see it read-only.
  const trees = locateCgroups(
    mounts.filter(({ type, target }) => type.startsWith("cgroup") && canWrite(target)),
  );
  const memory = trees.legacy.find(({ controllers }) => controllers.includes("memory"));
  const swapFile = join(memory?.path ?? "", "memory.memsw.limit_in_bytes");
  const hasSwapLimit = memory === undefined || readKernelFile(swapFile) !== undefined;
  return { ...trees, hasSwapLimit };
}

/**
 * The same for a new container: trees can be unmounted, or become read-only, while a service runs.
 * @throws SandboxError unavailable for root without any: nothing would limit the container.
 */
export async function requireCgroups(delegation?: Delegation): Promise<CgroupHost> {
  const host = await readCgroupHost(delegation);
  if (isRootless() || hasCgroups(host)) return host;
  throw new SandboxError("unavailable", "no cgroup tree of this machine takes limits", {
    hint: "run `sandbox-mcp doctor` on the machine of the service",
  });
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

/**
 * The controllers of limits that no tree has, as of a kernel that was started without one, and the
 * freezer: without the version 2 tree, containers are stopped and ended by it.
 */
export function missingControllers({ unified, legacy }: CgroupHost): string[] {
  const ofUnified = unified && readKernelFile(join(unified, "cgroup.controllers"));
  const found = new Set([
    ...legacy.flatMap(({ controllers }) => controllers),
    ...(ofUnified ?? "").trim().split(/\s+/),
  ]);
  const wanted = unified === undefined ? [...CONTROLLERS, "freezer"] : CONTROLLERS;
  return wanted.filter((name) => !found.has(name));
}

/** A hybrid host: limits in version 1 trees, and a unified tree beside them. */
export function isHybrid(host: CgroupHost): boolean {
  return host.unified !== undefined && host.legacy.length > 0;
}

/** The folders of our containers' cgroups in the trees in which processes are ended. */
export function groupFolders(host: CgroupHost): { unified?: string; freezer?: string } {
  const tree = host.legacy.find(({ controllers }) => controllers.includes("freezer"));
  return {
    ...(host.unified !== undefined && { unified: join(host.unified, PARENT) }),
    ...(tree !== undefined && { freezer: join(tree.path, PARENT) }),
  };
}

/** The cgroups of the container with this id; what stands in for them where there are none. */
export function openCgroup(host: CgroupHost, id: string, directory: string): Cgroup {
  if (!hasCgroups(host)) return openUserCgroup(host.delegation, id, directory);
  const folderIn = (tree: string) => join(tree, PARENT, id);
  const unified = host.unified === undefined ? undefined : folderIn(host.unified);
  const trees = [...host.legacy.map((tree) => tree.path), ...(host.unified ? [host.unified] : [])];
  const all = [...new Set(trees)].map(folderIn);
  const folders = {
    freezer: legacyFolder(host, "freezer", id),
    memory: legacyFolder(host, "memory", id),
    processor: legacyFolder(host, "cpuacct", id),
  };
  const opened = openFolders({ id, unified, ...folders, all });
  return {
    ...opened,
    get unified() {
      return opened.unified;
    },
    path: `/${PARENT}/${id}`,
    make: async ({ memoryMb }) => {
      for (const folder of all) await makeGroupFolder(folder);
      await limitBuffers(folders.memory, memoryMb);
    },
  };
}

/**
 * Version 1 counts what sockets hold apart from memory, and only where it has a limit: without one a
 * container could take all that the machine has for TCP and UDP. Newer kernels may lack the file.
 */
async function limitBuffers(memory: string | undefined, memoryMb: number): Promise<void> {
  const file = join(memory ?? "", "memory.kmem.tcp.limit_in_bytes");
  if (readKernelFile(file) === undefined) return;
  await writeFile(file, `${memoryMb * BYTES_PER_MB * BUFFER_SHARE}`);
}

/**
 * The launcher's steps. On a hybrid host the runtime gets to see the old trees alone, in which it
 * sets the limits; the container is in the unified tree all the same, since its first process starts
 * there, as in a delegated cgroup.
 */
export function cgroupSteps(host: CgroupHost, cgroup: Cgroup): LauncherStep[] {
  const { unified } = cgroup;
  const enter = unified === undefined ? undefined : enterStep(unified);
  if (!hasCgroups(host)) {
    // A runtime that finds trees which it may not write to fails, even when told to leave them alone.
    const hide = ["mount", "tmpfs", CGROUP_FOLDER, "mode=0755,size=4k"] as const;
    return enter === undefined ? [hide] : [enter, hide];
  }
  if (!isHybrid(host) || host.unified === undefined || enter === undefined) return [];
  return [enter, ["unmount", host.unified]];
}

function enterStep(folder: string): LauncherStep {
  return ["enter", join(folder, "cgroup.procs")];
}

function legacyFolder(host: CgroupHost, controller: string, id: string): string | undefined {
  const tree = host.legacy.find(({ controllers }) => controllers.includes(controller));
  return tree === undefined ? undefined : join(tree.path, PARENT, id);
}
