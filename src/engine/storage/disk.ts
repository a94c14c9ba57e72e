/**
 * The writable disk of one container: a sparse file of the exact size with a file system in it, so
 * that what a sandbox writes ends at its limit and never fills the host. Where this process may not
 * mount such a file, the disk is a folder without a limit.
 */

import { existsSync } from "node:fs";
import { mkdir, readlink, realpath, rename, rm, stat, symlink } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { draftOf, ifThere, readIfThere, removeEmpty } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import type { GrowingDisk } from "../engine.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { readMounts } from "../host/mount-table.ts";
import { runProgram } from "../host/run-program.ts";
import type { BlankDisks } from "./blank-disk.ts";
import { openGrowingDisk } from "./growing-disk.ts";
import { detachCopies, MOUNT_MODE } from "./mount-point.ts";

/** The file, and the folder where it is mounted, in the container's folder. */
export const DISK_NAMES = {
  image: "disk.img",
  mount: "disk",
  /** An empty file: blocks of the image may be those of a copy as well. */
  shared: "disk.shared",
} as const;

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
const BUSY_POLL_MS = 50;

export interface DiskOptions {
  readonly directory: string;
  /** Where images are, each in a folder of its own; undefined for the container's folder. */
  readonly place: string | undefined;
  readonly sizeMb: number;
  readonly blanks: BlankDisks;
  readonly signal: AbortSignal;
}

/** Makes the disk, which is mounted nowhere yet. What was made is removed by {@link removeDisk}. */
export async function makeDisk(options: DiskOptions): Promise<void> {
  await mkdir(join(options.directory, DISK_NAMES.mount), { mode: MOUNT_MODE });
  if (isRootless()) return;
  const image = await placeImage(options);
  await options.blanks.make(image, options.sizeMb, options.signal);
  await step("disk.formatted");
}

/**
 * Where the image of a new disk goes. The link to an image that is elsewhere comes first: by it the
 * image is found that a process left which died. `name` is that of the image's own folder there.
 */
export async function placeImage({
  directory,
  place,
  name = basename(directory),
}: Pick<DiskOptions, "directory" | "place"> & { readonly name?: string }): Promise<string> {
  const own = join(directory, DISK_NAMES.image);
  if (place === undefined) return own;
  const image = join(place, name, DISK_NAMES.image);
  // Relative, so that a home can be moved.
  await symlink(relative(directory, image), own);
  await mkdir(dirname(image), { recursive: true, mode: 0o700 });
  return image;
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
  if (isRootless()) return;
  const [image, mount] = [join(directory, DISK_NAMES.image), join(directory, DISK_NAMES.mount)];
  // The process that unmounted it may have died before it did this.
  await detachCopies(mount);
  const command = launcherCommand(perlDirectory, [["reattach", image, mount], ["exit"]]);
  await runProgram(command, { signal });
}

/** Mounts the disk of a container that runs, where the process that did so was in another mount namespace. */
export async function remountDisk(perlDirectory: string, directory: string): Promise<void> {
  const [image, mount] = [join(directory, DISK_NAMES.image), join(directory, DISK_NAMES.mount)];
  if (isRootless() || (await stat(mount)).dev !== (await stat(directory)).dev) return;
  await runProgram(launcherCommand(perlDirectory, [["reattach", image, mount], ["exit"]]));
}

/** Undefined where the disk is a folder. */
export function openDisk(directory: string): GrowingDisk | undefined {
  if (isRootless()) return undefined;
  const path = (name: keyof typeof DISK_NAMES) => join(directory, DISK_NAMES[name]);
  return {
    ...openGrowingDisk(path("image"), path("mount")),
    sharesBlocks: () => existsSync(path("shared")),
  };
}

const FLUSH_FAULT = "what was written to the disk of the sandbox could not be stored";

/**
 * Brings what programs wrote into the image, where it is mounted. An unmount does so too, but tells of no
 * fault, and the kernel tells of it only once: what was lost is not written again.
 * @throws SandboxError unavailable, for which `isFlushFault` holds
 */
export async function flushDisk(directory: string): Promise<void> {
  const mount = join(await resolveLinks(directory), DISK_NAMES.mount);
  if (!(await readMounts()).some(({ target }) => target === mount)) return;
  try {
    await runProgram(["sync", "-f", mount], { timeoutMs: SYNC_TIMEOUT_MS });
  } catch (error) {
    throw flushFault(error);
  }
}

export function flushFault(cause?: unknown): SandboxError {
  const hint = "check the disk of the home";
  return new SandboxError("unavailable", FLUSH_FAULT, { cause, hint });
}

export function isFlushFault(error: unknown): error is SandboxError {
  return error instanceof SandboxError && error.message === FLUSH_FAULT;
}

/** Brings the image to the host's disk. */
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
  await removePlaced(directory);
  for (const name of [DISK_NAMES.image, DISK_NAMES.shared]) {
    await rm(join(directory, name), { force: true });
  }
  await removeMountPoint(mount);
}

/**
 * In a copy of a home that was made while the disk was mounted, the folder has the files of the disk. It
 * gets another name first: were it still mounted, the kernel would refuse that, and no disk in use is
 * emptied.
 */
async function removeMountPoint(mount: string): Promise<void> {
  const draft = draftOf(mount);
  try {
    await removeEmpty(mount);
  } catch (error) {
    if (!isCode(error, "ENOTEMPTY")) throw error;
    await removeTree(draft);
    await rename(mount, draft);
  }
  await removeTree(draft);
}

async function removePlaced(directory: string): Promise<void> {
  try {
    const image = resolve(directory, await readlink(join(directory, DISK_NAMES.image)));
    await rm(image, { force: true });
    await removeEmpty(dirname(image));
  } catch (error) {
    // It is in the folder itself, or was removed before.
    if (!isCode(error, "EINVAL", "ENOENT")) throw error;
  }
}

/** Unmounts whatever is mounted below the folder and waits until its loop devices are free. */
export async function unmountBelow(directory: string): Promise<void> {
  const folder = await resolveLinks(directory);
  const mounts = (await readMounts()).filter(({ target }) => target.startsWith(`${folder}/`));
  for (const { target } of mounts.toReversed()) await unmount(target);
  const disk = join(folder, DISK_NAMES.mount);
  if (mounts.some(({ target }) => target === disk)) await detachCopies(disk);
  const endMs = performance.now() + DETACH_TIMEOUT_MS;
  for (const { source } of mounts) {
    while ((await isAttached(source, folder)) && performance.now() < endMs) {
      await delay(DETACH_POLL_MS);
    }
  }
}

/** The disk watch may be changing the options of this mount, which keeps it busy for a moment. */
async function unmount(target: string): Promise<void> {
  const endMs = performance.now() + DETACH_TIMEOUT_MS;
  for (;;) {
    try {
      await runProgram(["umount", target]);
      return;
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await delay(BUSY_POLL_MS);
    }
  }
}

/** The kernel names mounts by their real paths. */
async function resolveLinks(directory: string): Promise<string> {
  return (await ifThere(realpath(directory))) ?? directory;
}

async function isAttached(device: string, directory: string): Promise<boolean> {
  if (!device.startsWith("/dev/loop")) return false;
  const backing = await readIfThere(`/sys/block/${basename(device)}/loop/backing_file`);
  if (backing === undefined) return false;
  const placed = `/${basename(directory)}/${DISK_NAMES.image}`;
  return backing.startsWith(`${directory}/`) || backing.trimEnd().endsWith(placed);
}
