/**
 * The writable disk of one container: a sparse file of the exact size with a file system in it, so
 * that what a sandbox writes ends at its limit and never fills the host. Who may not mount such a
 * file gets a folder instead, without a limit.
 */

import { mkdir, realpath, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { causeCode } from "../../common/errors.ts";
import { readIfThere, removeEmpty } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { readMounts } from "../host/mount-table.ts";
import { runProgram } from "../host/run-program.ts";
import { launcherCommand, type LauncherStep } from "../oci/launcher.ts";
import type { BlankDisks } from "./blank-disk.ts";

/** The file, and the folder where it is mounted, in the container's folder. */
export const DISK_NAMES = { image: "disk.img", mount: "disk" } as const;

/** Upper and work folders of an overlay, relative to the disk's mount point. */
export const STACKS = {
  root: { upper: "root", work: "root-work" },
  usr: { upper: "usr", work: "usr-work" },
} as const;

/** Gigabytes may have to reach a slow disk. */
const SYNC_TIMEOUT_MS = 10 * 60_000;
/** A loop device is freed by the kernel a moment after the last user of its mount is gone. */
const DETACH_TIMEOUT_MS = 2_000;
const DETACH_POLL_MS = 5;

export interface DiskOptions {
  readonly directory: string;
  readonly sizeMb: number;
  readonly blanks: BlankDisks;
  readonly signal: AbortSignal;
}

/** Makes the disk, which is mounted nowhere yet. What was made is removed by {@link removeDisk}. */
export async function makeDisk(options: DiskOptions): Promise<void> {
  await mkdir(join(options.directory, DISK_NAMES.mount), { mode: 0o700 });
  if (isRootless()) return;
  const image = join(options.directory, DISK_NAMES.image);
  await options.blanks.make(image, options.sizeMb, options.signal);
  await step("disk.formatted");
}

/** What a disk holds before anything runs on it. */
export interface DiskContents {
  /** Owner of all of it: root of the container as the host sees it. */
  readonly idBase: number;
  readonly hasUsr: boolean;
  /** Of `/etc/resolv.conf`; undefined to leave that to the layers. */
  readonly resolver: string | undefined;
}

/**
 * The steps that mount a disk that was just made and fill it. Only a disk that no program inside
 * has seen is written to, so no link can lead elsewhere.
 */
export function firstDiskSteps(directory: string, contents: DiskContents): LauncherStep[] {
  const { idBase, hasUsr, resolver } = contents;
  const mount = join(directory, DISK_NAMES.mount);
  const own = (path: string) => ["own", path, `${idBase}`] as const;
  const folder = (path: string) => [["mkdir", path] as const, own(path)];
  const etc = join(mount, STACKS.root.upper, "etc");
  const file = join(etc, "resolv.conf");
  return [
    ...attachSteps(directory),
    ...(hasUsr ? [STACKS.root, STACKS.usr] : [STACKS.root]).flatMap(({ upper, work }) => [
      ...folder(join(mount, upper)),
      ["mkdir", join(mount, work)] as const,
    ]),
    ...(resolver === undefined
      ? []
      : [...folder(etc), ["write", file, resolver] as const, own(file)]),
  ];
}

/** Who may not mount has the folder alone. */
function attachSteps(directory: string): LauncherStep[] {
  if (isRootless()) return [];
  return [["attach", join(directory, DISK_NAMES.image), join(directory, DISK_NAMES.mount)]];
}

/** Mounts the disk that a halted container left. */
export async function mountDisk(
  perlDirectory: string,
  directory: string,
  signal: AbortSignal,
): Promise<void> {
  const command = launcherCommand(perlDirectory, [...attachSteps(directory), ["exit"]]);
  await runProgram(command, { signal });
}

/** Brings what was written to the host's disk. */
export async function syncDisk(directory: string): Promise<void> {
  const command: [string, ...string[]] = isRootless()
    ? ["sync", "-f", join(directory, DISK_NAMES.mount)]
    : ["sync", join(directory, DISK_NAMES.image)];
  await runProgram(command, { timeoutMs: SYNC_TIMEOUT_MS });
}

/** Removes the disk, which is mounted nowhere any more. Idempotent. */
export async function removeDisk(directory: string): Promise<void> {
  const mount = join(directory, DISK_NAMES.mount);
  if (isRootless()) {
    await removeTree(mount);
    return;
  }
  await rm(join(directory, DISK_NAMES.image), { force: true });
  // Never recursive: were it still mounted, that would empty a disk that somebody uses.
  await removeEmpty(mount);
}

/** Unmounts whatever is mounted below the folder and waits until its loop devices are free. */
export async function unmountBelow(directory: string): Promise<void> {
  const folder = await resolveLinks(directory);
  const mounts = (await readMounts()).filter(({ target }) => target.startsWith(`${folder}/`));
  for (const { target } of mounts.toReversed()) await runProgram(["umount", target]);
  const endMs = performance.now() + DETACH_TIMEOUT_MS;
  for (const { source } of mounts) {
    while ((await isAttached(source, folder)) && performance.now() < endMs) {
      await delay(DETACH_POLL_MS);
    }
  }
}

/** The kernel names mounts by their real paths. */
async function resolveLinks(directory: string): Promise<string> {
  try {
    return await realpath(directory);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return directory;
    throw error;
  }
}

async function isAttached(device: string, directory: string): Promise<boolean> {
  if (!device.startsWith("/dev/loop")) return false;
  const backing = await readIfThere(`/sys/block/${basename(device)}/loop/backing_file`);
  return backing?.startsWith(`${directory}/`) ?? false;
}
