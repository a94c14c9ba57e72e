/** Reading files that may not be there, and writing files that are seen whole or not at all. */

import { accessSync, constants, readFileSync } from "node:fs";
import {
  lstat,
  open,
  readdir,
  readFile,
  rename,
  rmdir,
  stat,
  writeFile,
  type FileHandle,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { isCode } from "./errors.ts";

/** ENODEV and ESRCH: a kernel file whose object ended between opening and reading. */
const ABSENT = ["ENOENT", "ENODEV", "ESRCH"];

/** What `work` yields; undefined where its path is not there, or where it fails with one of `codes`. */
export async function ifThere<T>(
  work: Promise<T>,
  ...codes: readonly string[]
): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isCode(error, "ENOENT", ...codes)) return undefined;
    throw error;
  }
}

/** The text of a file, or undefined when there is no such file or no such kernel object. */
export async function readIfThere(path: string): Promise<string | undefined> {
  return ifThere(readFile(path, "utf8"), ...ABSENT);
}

/**
 * The same of a file of the kernel's own, in proc, sysfs or a cgroup tree. Nothing has to be fetched
 * for it, so it is read at once: a way through another thread costs thirty times as much.
 */
export function readKernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (isCode(error, ...ABSENT)) return undefined;
    throw error;
  }
}

/**
 * Writes a file, mode 0600, so that a reader sees all of it or the one before. A file that several
 * processes may write at once needs a draft for each.
 */
export async function writeWhole(
  path: string,
  text: string,
  draft: string = draftOf(path),
): Promise<void> {
  await writeFile(draft, text, { mode: 0o600 });
  await rename(draft, path);
}

/** Writes all of these bytes at this place of a file. */
export async function writeAt(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** As `writeWhole`; it outlives a power cut, and has this mode whatever the process's mask. */
export async function writeDurably(path: string, text: string, mode = 0o600): Promise<void> {
  const file = await open(draftOf(path), "w", mode);
  try {
    // Whatever the umask, and whatever a draft had that was left here.
    await file.chmod(mode);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draftOf(path), path);
  await syncFolder(dirname(path));
}

/** Makes durable what a file holds. */
export async function syncFile(path: string | Buffer): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes durable which names a folder has. */
export async function syncFolder(directory: string | Buffer): Promise<void> {
  await syncFile(directory);
}

/** Whether it is there and this process may change it; what is mounted read-only it may not. */
export function canWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Where a file lies while it is written. */
export function draftOf(path: string): string {
  return `${path}.part`;
}

/** The names in a folder; none where it is not there. */
export async function listFolder(path: string): Promise<string[]> {
  return (await ifThere(readdir(path))) ?? [];
}

/** Removes an empty folder; one that is not there is no fault. */
export async function removeEmpty(directory: string): Promise<void> {
  await ifThere(rmdir(directory));
}

/** Whether a folder has all of these parts; a fault of the disk does not mean that one is missing. */
export async function hasParts(directory: string, parts: readonly string[]): Promise<boolean> {
  for (const part of parts) {
    if ((await ifThere(lstat(join(directory, part)), "ENOTDIR")) === undefined) return false;
  }
  return true;
}

/** Whether the path leads to something. */
export async function isThere(path: string): Promise<boolean> {
  return (await ifThere(stat(path))) !== undefined;
}
