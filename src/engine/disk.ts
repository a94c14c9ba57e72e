/**
 * The writable disk of one container: a sparse file of the exact size with a file system in it, so
 * that what a sandbox writes ends at its limit and never fills the host. Who may not mount such a
 * file gets a folder instead, without a limit.
 */

import { chmod, chown, mkdir, realpath, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { causeCode } from "../common/errors.ts";
import { isRootless } from "../common/privilege.ts";
import { step } from "../common/steps.ts";
import type { BlankDisks } from "./blank-disk.ts";
import { readIfThere, removeEmpty } from "./files.ts";
import { readMounts } from "./mounts.ts";
import { runTool } from "./tool.ts";

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
  /** Owner of the upper folders: root of the container as the host sees it. */
  readonly idBase: number;
  readonly hasUsr: boolean;
  readonly blanks: BlankDisks;
  readonly signal: AbortSignal;
}

/** Makes and mounts the disk. What was made is removed by {@link removeDisk}. */
export async function makeDisk(options: DiskOptions): Promise<void> {
  const image = join(options.directory, DISK_NAMES.image);
  const mount = join(options.directory, DISK_NAMES.mount);
  const { signal } = options;
  await mkdir(mount, { mode: 0o700 });
  if (!isRootless()) {
    await options.blanks.make(image, options.sizeMb, signal);
    await step("disk.formatted");
    await mountDisk(options.directory, signal);
    await step("disk.mounted");
  }
  for (const stack of options.hasUsr ? [STACKS.root, STACKS.usr] : [STACKS.root]) {
    // The root folder of the container, whatever the umask.
    await mkdir(join(mount, stack.upper));
    await chmod(join(mount, stack.upper), 0o755);
    await chown(join(mount, stack.upper), options.idBase, options.idBase);
    await mkdir(join(mount, stack.work), { mode: 0o700 });
  }
  await step("disk.ready");
}

/** Mounts the disk that a halted container left, or one that was just made. */
export async function mountDisk(directory: string, signal: AbortSignal): Promise<void> {
  if (isRootless()) return;
  const image = join(directory, DISK_NAMES.image);
  const mount = join(directory, DISK_NAMES.mount);
  // On the host its programs do not run and its device nodes do not open.
  const flags = "loop,nosuid,nodev,noexec,noatime,noinit_itable";
  await runTool(["mount", "-t", "ext4", "-o", flags, image, mount], { signal });
}

/** Brings what was written to the host's disk. */
export async function syncDisk(directory: string): Promise<void> {
  const command: [string, ...string[]] = isRootless()
    ? ["sync", "-f", join(directory, DISK_NAMES.mount)]
    : ["sync", join(directory, DISK_NAMES.image)];
  await runTool(command, { timeoutMs: SYNC_TIMEOUT_MS });
}

/** Removes the disk, which is mounted nowhere any more. Idempotent. */
export async function removeDisk(directory: string): Promise<void> {
  const mount = join(directory, DISK_NAMES.mount);
  if (isRootless()) {
    // Its tree may be deeper than any path is long: only a tool that goes by folders can remove it.
    await runTool(["rm", "-rf", "--one-file-system", mount], { timeoutMs: SYNC_TIMEOUT_MS });
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
  for (const { target } of mounts.toReversed()) await runTool(["umount", target]);
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
