/**
 * Folders of the home where images are mounted, in every mount namespace of the machine. A program that
 * makes a namespace (a container, a service of systemd, `unshare`) has a copy of each mount of that
 * moment. No unmount reaches it, and it keeps the file system and its loop device in use.
 */

import { mkdir, open, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../../common/backoff.ts";
import { isCode, SandboxError } from "../../common/errors.ts";
import { ifThere, removeEmpty } from "../../common/files.ts";
import { tryLockOpen } from "../host/lock.ts";
import { runProgram } from "../host/run-program.ts";

export const MOUNT_MODE = 0o700;

/** The log of a file system is written, and that of a device may be slow. */
const UNMOUNT_TIMEOUT_MS = 5 * 60_000;
/** Another program may look there, and a disk in it may just be going; a second in all. */
const UNMOUNT_ATTEMPTS = 7;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 320;

/**
 * Makes the folder, where it is not there: a process may have died while it detached copies. Not the one
 * above it: what was removed meanwhile is not made again.
 */
export async function makeMountPoint(mount: string): Promise<void> {
  try {
    await mkdir(mount, { mode: MOUNT_MODE });
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
}

/** Whether a file system is mounted on the folder of this name; not where one of both is missing. */
export async function hasMount(folder: string, name: string): Promise<boolean> {
  const found = await ifThere(Promise.all([stat(folder), stat(join(folder, name))]));
  return found !== undefined && found[0].dev !== found[1].dev;
}

/**
 * Takes what was unmounted here out of all other mount namespaces: the kernel detaches every mount at a
 * folder that is removed. No process may need the file system there.
 */
export async function detachCopies(mount: string): Promise<void> {
  try {
    await removeEmpty(mount);
  } catch (error) {
    // Then the next mount of the image uses the device again that has it.
    if (!isCode(error, "ENOTEMPTY")) throw error;
  }
  await makeMountPoint(mount);
}

/**
 * Holds the file system that is mounted there: the kernel refuses an unmount in this namespace, and
 * `unmountUnheld` in others of this home.
 */
export async function holdMount(mount: string): Promise<FileHandle> {
  const hold = await open(mount, "r");
  try {
    if (await tryLockOpen(hold, { isShared: true })) return hold;
    throw new SandboxError("unavailable", "a file system is being unmounted");
  } catch (error) {
    await hold.close();
    throw error;
  }
}

/** Whether a process holds the file system that is mounted there, in any namespace. */
export async function hasHolder(mount: string): Promise<boolean> {
  const folder = await open(mount, "r");
  try {
    return !(await tryLockOpen(folder));
  } finally {
    await folder.close();
  }
}

/**
 * Unmounts it here, unless a process holds it; and its copies, unless a process holds it in another
 * namespace. The caller has the lock under which others mount it. What has another user after all
 * attempts stays until the next clean-up of the home.
 */
export async function unmountUnheld(mount: string): Promise<void> {
  const backoff = createBackoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  for (let attempt = 1; attempt <= UNMOUNT_ATTEMPTS; attempt += 1) {
    if (attempt > 1) await delay(backoff.next());
    if ((await tryUnmount(mount)) !== "busy") return;
  }
}

async function tryUnmount(mount: string): Promise<"done" | "held" | "busy"> {
  let isHeld = false;
  try {
    isHeld = await hasHolder(mount);
    await runProgram(["umount", mount], { timeoutMs: UNMOUNT_TIMEOUT_MS });
    if (!isHeld) await detachCopies(mount);
    return "done";
  } catch {
    return isHeld ? "held" : "busy";
  }
}

/** Unmounts one that may be in use; another process may do so, too. */
export async function detachMount(folder: string, name: string): Promise<void> {
  try {
    await runProgram(["umount", "-l", join(folder, name)]);
  } catch (error) {
    if (await hasMount(folder, name)) throw error;
  }
}
