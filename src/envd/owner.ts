/** Creating things on behalf of a user: folders with their parents, and who owns what. */

import { constants } from "node:fs";
import { posix } from "node:path";
import { causeCode, isCode, SandboxError } from "../common/errors.ts";
import { fileErrorText } from "./errno.ts";
import { lstat, mkdir, open, stat } from "./file-system.ts";
import type { User } from "./user.ts";

const DIRECTORY_MODE = 0o755;

/** Follows no link, so that no program can move the change of owner to another place. */
const DIRECTORY_FLAGS =
  constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Whether this process may give files away; only root may. */
export function canChangeOwner(): boolean {
  return process.geteuid?.() === 0;
}

/**
 * Makes a folder and its missing parents, each mode 0755 and owned by the user. A folder that
 * someone else makes meanwhile is as good as ours.
 * @throws SandboxError internal when a parent is no folder or cannot be made.
 */
export async function ensureDirectories(path: string, user: User): Promise<void> {
  const missing = await missingDirectories(path);
  for (const directory of missing) await makeDirectory(directory, user);
}

/** The folders that do not exist yet, outermost first. */
async function missingDirectories(path: string): Promise<string[]> {
  const missing: string[] = [];
  let current = path;
  for (;;) {
    const kind = await kindOf(current);
    if (kind === "directory") return missing.toReversed();
    if (kind === "other") throw new SandboxError("internal", `path is a file: ${current}`);
    missing.push(current);
    const parent = posix.dirname(current);
    if (parent === current) return missing.toReversed();
    current = parent;
  }
}

async function kindOf(path: string): Promise<"directory" | "other" | "missing"> {
  try {
    return (await stat(path)).isDirectory() ? "directory" : "other";
  } catch (error) {
    const code = causeCode(error);
    if (code === "ENOENT") return kindOfUnresolved(path);
    // A parent of it is a file; the walk upwards meets that file and names it.
    if (code === "ENOTDIR") return "missing";
    throw new SandboxError("internal", fileErrorText("stat", path, error), { cause: error });
  }
}

/** Tells a link that leads nowhere from nothing at all, and from what came to be meanwhile. */
async function kindOfUnresolved(path: string): Promise<"directory" | "other" | "missing"> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined) return "missing";
  return stats.isDirectory() ? "directory" : "other";
}

async function makeDirectory(path: string, user: User): Promise<void> {
  try {
    await mkdir(path, DIRECTORY_MODE);
  } catch (error) {
    // Made by someone else meanwhile, or a name such as `..` of a folder just made: not ours to give.
    if (isCode(error, "EEXIST")) return;
    throw new SandboxError("internal", fileErrorText("mkdir", path, error), { cause: error });
  }
  if (!canChangeOwner()) return;
  try {
    await using handle = await open(path, DIRECTORY_FLAGS);
    await handle.chown(user.uid, user.gid);
  } catch (error) {
    throw new SandboxError("internal", fileErrorText("chown", path, error), { cause: error });
  }
}
