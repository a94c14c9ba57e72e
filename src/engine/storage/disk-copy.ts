/**
 * Copies of disks that share their blocks (FICLONE), where the file system of the home can: the time
 * does not depend on how much a disk holds. A copy is a file that nothing mounts or writes to; a
 * container that begins with one has a copy of the copy.
 */

import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, mkdir, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isCode } from "../../common/errors.ts";
import { syncFolder } from "../../common/files.ts";
import { step } from "../../common/steps.ts";
import type { DiskCopy } from "../engine.ts";
import { launcherCommand } from "../host/launcher.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import { DISK_NAMES, type DiskOptions, placeImage } from "./disk.ts";
import { makeWhole } from "./layers.ts";
import { whileFrozen, type SnapshotSource } from "./snapshot.ts";

/** A copy in its folder. */
const IMAGE_NAME = "disk.img";
/** What the file system has to write before it can share blocks may be gigabytes. */
const TIMEOUT_MS = 10 * 60_000;
const BLOCK_BYTES = 4096;

/** Names of files that a trial has for a moment begin so. */
export const TRIAL_PREFIX = ".share-";

/** Words between this process and `clone-disk.pl`. */
const READY = "ready";
const GO = "go\n";
const CLONED = "cloned";
/** What a file system answers that shares no blocks, or not between these folders. */
const REFUSALS = new Set(["ENOTSUP", "EOPNOTSUPP", "EXDEV", "EINVAL", "ENOTTY", "ENOSYS"]);

/**
 * Copies the disk of a container into a new folder, durably; programs are frozen while the blocks
 * become shared. Undefined where they cannot be, and then nothing was made.
 */
export async function copyDisk(
  source: SnapshotSource,
  target: string,
): Promise<DiskCopy | undefined> {
  const image = await realpath(join(source.directory, DISK_NAMES.image));
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  const [{ dev }, folder] = [await stat(image), await stat(dirname(target))];
  if (dev !== folder.dev || !(await sharesBlocks(dirname(target)))) return undefined;
  // First the mark: what is shared takes space again when it is written to.
  await writeFile(join(source.directory, DISK_NAMES.shared), "", { mode: 0o600 });
  await makeWhole(target, {
    fill: async (draft) => cloneImage(source, join(draft, IMAGE_NAME)),
    sync: syncFolder,
  });
  return { image: join(target, IMAGE_NAME), idBase: source.idBase };
}

async function cloneImage(source: SnapshotSource, image: string): Promise<void> {
  const { directory, perlDirectory } = source;
  const [ready, cloned] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const go = Promise.withResolvers<string>();
  const files = [join(directory, DISK_NAMES.mount), join(directory, DISK_NAMES.image), image];
  const words = perlCommand(perlDirectory, "clone-disk", [process.arch, ...files]);
  const clone = runProgram(launcherCommand(perlDirectory, [["exec", ...words]]), {
    timeoutMs: TIMEOUT_MS,
    input: go.promise,
    onLine(line) {
      if (line === READY) ready.resolve();
      if (line === CLONED) cloned.resolve();
    },
  });
  try {
    // One that ends before it has said so has failed.
    await Promise.race([ready.promise, clone]);
    await step("clone.ahead");
    await whileFrozen(source, async () => {
      await step("clone.frozen");
      go.resolve(GO);
      await Promise.race([cloned.promise, clone]);
      await step("clone.cloned");
    });
    await step("clone.thawed");
    await clone;
  } finally {
    // Without the word it ends by itself.
    go.resolve("");
    await clone.catch(() => undefined);
  }
}

/**
 * Makes a disk of a copy in the container's folder, as large as the copied one; it is mounted nowhere
 * yet.
 */
export async function restoreDisk(
  copy: DiskCopy,
  { directory, place, signal }: Pick<DiskOptions, "directory" | "place" | "signal">,
): Promise<void> {
  await mkdir(join(directory, DISK_NAMES.mount), { mode: 0o700 });
  const image = await placeImage({ directory, place });
  await writeFile(join(directory, DISK_NAMES.shared), "", { mode: 0o600 });
  try {
    await copyFile(copy.image, image, constants.COPYFILE_FICLONE_FORCE);
  } catch (error) {
    if (!isCode(error, ...REFUSALS)) throw error;
    const words = ["--reflink=never", "--sparse=always", copy.image, image];
    await runProgram(["cp", ...words], { timeoutMs: TIMEOUT_MS, signal });
  }
  await step("disk.restored");
}

/** Whether the file system of a folder shares blocks between files, found by a trial. */
export async function sharesBlocks(folder: string): Promise<boolean> {
  const name = `${TRIAL_PREFIX}${randomUUID()}`;
  const [source, target] = [join(folder, name), join(folder, `${name}.copy`)];
  try {
    await writeFile(source, Buffer.alloc(BLOCK_BYTES), { mode: 0o600 });
    await copyFile(source, target, constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch (error) {
    if (isCode(error, ...REFUSALS)) return false;
    throw error;
  } finally {
    for (const path of [source, target]) await removeTrial(path);
  }
}

/** A fault of the disk says nothing about blocks. What a second one leaves the next start removes. */
async function removeTrial(path: string): Promise<void> {
  const remove = async () => rm(path, { force: true });
  await remove()
    .catch(remove)
    .catch(() => undefined);
}
