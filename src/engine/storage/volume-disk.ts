/**
 * The disk of a volume: an image like that of a container, in a folder of its own in `volume-disks`. It
 * has a journal, because it outlives every process and a crash of the machine. It is mounted when a
 * process of the home first uses it. Each such process holds the mounted folder open, so the kernel
 * counts them, whatever becomes of them, and no unmount succeeds while there is one. A container has a
 * mount of its own, which keeps the file system in use after it was unmounted here; the next mount
 * finds its device.
 */

import { chown, mkdir, readdir, rename, stat, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isFarAway } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { draftOf, isThere, listFolder, removeEmpty, syncFolder } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import type { GrowingDisk } from "../engine.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { withLock } from "../host/lock.ts";
import { runProgram } from "../host/run-program.ts";
import { createBlankDisks, type BlankDisks } from "./blank-disk.ts";
import { DISK_NAMES, placeImage, removeDisk } from "./disk.ts";
import { syncMounts, trimMounts } from "./flush-mounts.ts";
import { openGrowingDisk } from "./growing-disk.ts";
import {
  detachMount,
  hasHolder,
  hasMount,
  holdMount,
  makeMountPoint,
  MOUNT_MODE,
  unmountUnheld,
} from "./mount-point.ts";
import { findDisksFolder, removeStoreDisk } from "./store-image.ts";

/** In a home: the folders of all disks of volumes. */
const DISKS = "volume-disks";
/** Beside the content of a volume on its disk: files that become part of it when they are complete. */
const DRAFTS = "drafts";
/** A draft that has not got a byte for so long belongs to no upload. */
const MAX_DRAFT_PAUSE_MS = 5 * 60_000;
const FOLDER_MODE = 0o755;

const BYTES_PER_MB = 1024 ** 2;
/** Of the size of the disk. */
const JOURNAL_SHARE = 1 / 256;
const JOURNAL_MB = { min: 4, max: 64 } as const;

/** The log of a file system that was cut off is replayed first. */
const MOUNT_TIMEOUT_MS = 5 * 60_000;
/** One above the other: what other mount namespaces mount may come to this one too. */
const MAX_MOUNTS = 8;

function journalMbOf(sizeMb: number): number {
  return Math.min(Math.max(Math.floor(sizeMb * JOURNAL_SHARE), JOURNAL_MB.min), JOURNAL_MB.max);
}

export interface NewVolumeDisk {
  readonly volumeId: string;
  readonly sizeMb: number;
  /** Of the folder that is the volume: user and group. */
  readonly owner: number;
}

/** The content of a volume, where its disk is mounted; its name in the table of mounts is the id. */
export function volumeContent(home: string, volumeId: string): string {
  return join(mountOf(home, volumeId), volumeId);
}

/** A file of the same file system that no container sees. */
export function volumeDraft(home: string, volumeId: string, name: string): string {
  return draftOf(join(mountOf(home, volumeId), DRAFTS, name));
}

export async function hasVolumeDisk(home: string, volumeId: string): Promise<boolean> {
  return isThere(folderOf(home, volumeId));
}

/** Names of all folders; one that was not finished, or is being removed, ends with `.part`. */
export async function listVolumeDisks(home: string): Promise<readonly string[]> {
  return listFolder(join(home, DISKS));
}

/** Makes disks of volumes and remembers what an empty one is. */
export interface VolumeDiskMaker {
  /** Durable when it resolves; one that is there already is left as it is. */
  make(disk: NewVolumeDisk, signal: AbortSignal): Promise<void>;
}

export function createVolumeDiskMaker(home: string, perlDirectory: string): VolumeDiskMaker {
  const blanks = createBlankDisks(perlDirectory, journalMbOf);
  return {
    make: (disk, signal) => locked(home, () => makeLocked({ home, blanks, signal }, disk)),
  };
}

interface Making {
  readonly home: string;
  readonly blanks: BlankDisks;
  readonly signal: AbortSignal;
}

async function makeLocked(
  { home, blanks, signal }: Making,
  { volumeId, sizeMb }: NewVolumeDisk,
): Promise<void> {
  const folder = folderOf(home, volumeId);
  if (await isThere(folder)) return;
  const draft = draftOf(folder);
  await removeFolder(draft);
  // Of a try whose folder did not outlive a power cut.
  await removeStoreDisk(home, "volumes", volumeId);
  await mkdir(join(draft, DISK_NAMES.mount), { recursive: true, mode: MOUNT_MODE });
  const place = await findDisksFolder(home, "volumes");
  const image = await placeImage({ directory: draft, place, name: volumeId });
  await blanks.make(image, sizeMb, signal);
  for (const path of [image, dirname(image), dirname(dirname(image)), draft]) {
    await syncFolder(path);
  }
  await step("volume.formatted");
  await rename(draft, folder);
  await syncFolder(dirname(folder));
}

/**
 * Mounts those that are not mounted. Each stays mounted until its handle is closed, and then until
 * `unmountVolumeDisks`.
 * @throws SandboxError unavailable when one cannot be mounted; then none is held.
 */
export async function mountVolumeDisks(
  home: string,
  perlDirectory: string,
  disks: readonly NewVolumeDisk[],
): Promise<readonly FileHandle[]> {
  try {
    return await locked(home, () => mountLocked(home, perlDirectory, disks));
  } catch (error) {
    throw new SandboxError("unavailable", "volume could not be mounted", {
      cause: error,
      hint: "the log of the service has the reason; fsck.ext4 repairs the disk image of a volume",
    });
  }
}

async function mountLocked(
  home: string,
  perlDirectory: string,
  disks: readonly NewVolumeDisk[],
): Promise<readonly FileHandle[]> {
  const steps: LauncherStep[] = [];
  const fresh = new Set<string>();
  for (const { volumeId } of disks) {
    const folder = folderOf(home, volumeId);
    if (await isMounted(folder)) continue;
    fresh.add(volumeId);
    await makeMountPoint(mountOf(home, volumeId));
    steps.push(["shared", join(folder, DISK_NAMES.image), join(folder, DISK_NAMES.mount)]);
  }
  const holds: FileHandle[] = [];
  try {
    if (steps.length > 0) {
      const command = launcherCommand(perlDirectory, [...steps, ["exit"]]);
      await runProgram(command, { timeoutMs: MOUNT_TIMEOUT_MS });
      await step("volume.mounted");
    }
    for (const disk of disks) {
      const mount = mountOf(home, disk.volumeId);
      // One that is mounted in another namespace only may have uploads there.
      const isUnused = fresh.has(disk.volumeId) && !(await hasHolder(mount));
      holds.push(await holdMount(mount));
      await prepare(mount, disk);
      await removeDrafts(join(mount, DRAFTS), isUnused);
    }
    return holds;
  } catch (error) {
    for (const hold of holds) await hold.close();
    await unmountLocked(home, [...fresh]);
    throw error;
  }
}

/** Unmounts those that no process uses; the last one that leaves a disk unmounts it. */
export async function unmountVolumeDisks(home: string, ids: readonly string[]): Promise<void> {
  if ((await findMounts(home, ids)).length === 0) return;
  await locked(home, () => unmountLocked(home, ids));
}

async function unmountLocked(home: string, ids: readonly string[]): Promise<void> {
  for (const mount of await findMounts(home, ids)) await unmountUnheld(mount);
}

/**
 * Brings what was written to the host's disk. An unmount does so too, but it tells of no fault, and it
 * holds the lock meanwhile, so that no volume of the home can be mounted.
 * @throws SandboxError unavailable; all of them were tried, unless the disk does not answer
 */
export async function syncVolumeDisks(home: string, ids: readonly string[]): Promise<void> {
  const failed = await syncMounts(await findMounts(home, ids)).catch((cause: unknown) => {
    throw notStored(cause);
  });
  for (const [mount, cause] of failed) {
    // Another process may have removed it.
    if (await isMounted(dirname(mount))) throw notStored(cause);
  }
}

function notStored(cause: unknown): SandboxError {
  const message = "last writes to volumes were not stored";
  return new SandboxError("unavailable", message, { cause, hint: "check the disk of the home" });
}

/** Brings what was written to the host's disk, and gives it back what is free in the images. */
export async function flushVolumeDisks(home: string, ids: readonly string[]): Promise<void> {
  await trimMounts(await findMounts(home, ids));
}

/** Removes a disk, or what is left of one, whatever uses it; idempotent. */
export async function removeVolumeDisk(home: string, name: string): Promise<void> {
  const volumeId = name.replace(/\.part$/, "");
  await setVolumeDiskAside(home, volumeId);
  await eraseVolumeDisk(home, volumeId);
}

/** Gives it another name, under which no process mounts it any more. */
export async function setVolumeDiskAside(home: string, volumeId: string): Promise<void> {
  const folder = folderOf(home, volumeId);
  await locked(home, async () => {
    if (await isThere(folder)) await rename(folder, draftOf(folder));
  });
}

/** Removes what was set aside; what was written to it last may still have to reach the disk. */
export async function eraseVolumeDisk(home: string, volumeId: string): Promise<void> {
  await step("volume.detached");
  await removeFolder(draftOf(folderOf(home, volumeId)));
}

export function openVolumeDisk(
  home: string,
  { volumeId, sizeMb }: Pick<NewVolumeDisk, "volumeId" | "sizeMb">,
): GrowingDisk {
  const image = join(folderOf(home, volumeId), DISK_NAMES.image);
  const journalBytes = journalMbOf(sizeMb) * BYTES_PER_MB;
  const disk = openGrowingDisk(image, mountOf(home, volumeId), journalBytes);
  return { ...disk, sharesBlocks: () => false };
}

function folderOf(home: string, volumeId: string): string {
  return join(home, DISKS, volumeId);
}

function mountOf(home: string, volumeId: string): string {
  return join(folderOf(home, volumeId), DISK_NAMES.mount);
}

function locked<T>(home: string, work: () => Promise<T>): Promise<T> {
  return withLock({ home, name: "volumes" }, work);
}

async function removeFolder(folder: string): Promise<void> {
  for (let count = 0; count < MAX_MOUNTS && (await isMounted(folder)); count += 1) {
    await detachMount(folder, DISK_NAMES.mount);
  }
  await removeDisk(folder);
  await removeEmpty(folder);
}

async function findMounts(home: string, ids: readonly string[]): Promise<readonly string[]> {
  const mounts: string[] = [];
  for (const id of ids) if (await isMounted(folderOf(home, id))) mounts.push(mountOf(home, id));
  return mounts;
}

async function isMounted(folder: string): Promise<boolean> {
  return hasMount(folder, DISK_NAMES.mount);
}

/** Makes the folders of a disk that was never mounted. Only this program reaches the top of a disk. */
async function prepare(mount: string, { volumeId, owner }: NewVolumeDisk): Promise<void> {
  const content = join(mount, volumeId);
  if (await isThere(content)) return;
  await mkdir(join(mount, DRAFTS), { recursive: true, mode: 0o700 });
  const draft = draftOf(content);
  await mkdir(draft, { recursive: true, mode: FOLDER_MODE });
  await chown(draft, owner, owner);
  await rename(draft, content);
  await syncFolder(mount);
}

/** Removes what uploads left whose process died. */
async function removeDrafts(directory: string, isUnused: boolean): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const entry = await stat(path).catch(() => undefined);
    const isOld = entry !== undefined && isFarAway(entry.mtimeMs, MAX_DRAFT_PAUSE_MS);
    if (isUnused || isOld) await removeTree(path);
  }
}
