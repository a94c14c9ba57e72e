/**
 * Whether a tree still has the modes with which it was made. After `chmod -R` on a home, or a copy of it
 * without modes, its sandboxes start, but only root can run programs in them, or `sudo` fails.
 */

import { chmod, lstat } from "node:fs/promises";
import { join } from "node:path";
import { ifThere } from "./files.ts";

/** Every account may list and enter the folder. */
const OPEN = 0o005;
const MODE_BITS = 0o7777;
const SUDO = "usr/bin/sudo";
/** Every account may run it, as root: a change of owners and many a copy take that away. */
const RUNS_AS_ROOT = 0o4001;

/** One that is not there has no modes that could be wrong. */
export async function isOpenTree(tree: string): Promise<boolean> {
  const entry = await ifThere(lstat(tree));
  return entry === undefined || (entry.mode & OPEN) === OPEN;
}

/** The same of a tree whose packages are known, with its `sudo`, which some systems have as a link. */
export async function keepsModes(tree: string): Promise<boolean> {
  const sudo = await ifThere(lstat(join(tree, SUDO)));
  const isAsMade = !sudo?.isFile() || (sudo.mode & RUNS_AS_ROOT) === RUNS_AS_ROOT;
  return isAsMade && (await isOpenTree(tree));
}

/**
 * Lets every account list and enter the folder of a tree, as of a program that closed its own `/`: sandboxes
 * have a root of their own above it, and what is closed later has lost modes.
 */
export async function openTree(tree: string): Promise<void> {
  const entry = await ifThere(lstat(tree));
  if (entry === undefined || (entry.mode & OPEN) === OPEN) return;
  await chmod(tree, (entry.mode & MODE_BITS) | OPEN);
}
