/** Copies of files of this machine, of those that all users may read. */

import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  utimesSync,
  type Stats,
} from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isCode } from "../../common/errors.ts";

const READABLE_BY_ALL = 0o004;
const MODE_BITS = 0o7777;
/** Node's asynchronous copy takes ten times as long; other work has its turn between so many. */
const FILES_PER_TURN = 32;

/**
 * Copies `/path` to `root/path`: a file, a link or a tree, and of a tree what is readable by all.
 * Links stay links, owners become the caller. What is not there or not readable is left out.
 */
export async function copyReadable(path: string, root: string): Promise<void> {
  const entry = findReadable(`/${path}`);
  if (entry === undefined) return;
  mkdirSync(dirname(join(root, path)), { recursive: true });
  if (!entry.isDirectory()) return copyEntry(path, root, entry);
  await copyTree(path, root, entry);
}

async function copyTree(path: string, root: string, { mode }: Stats): Promise<void> {
  const target = join(root, path);
  mkdirSync(target, { recursive: true });
  for (const [index, name] of readdirSync(`/${path}`).entries()) {
    if (index % FILES_PER_TURN === 0) await setImmediate();
    const inner = join(path, name);
    const entry = findReadable(`/${inner}`);
    if (entry?.isDirectory() === true) await copyTree(inner, root, entry);
    else if (entry !== undefined) copyEntry(inner, root, entry);
  }
  // Last: not every directory may be written to.
  chmodSync(target, mode & MODE_BITS);
}

function copyEntry(path: string, root: string, entry: Stats): void {
  const [source, target] = [`/${path}`, join(root, path)];
  if (entry.isSymbolicLink()) return symlinkSync(readlinkSync(source), target);
  copyFileSync(source, target);
  utimesSync(target, entry.atime, entry.mtime);
}

function findReadable(path: string): Stats | undefined {
  try {
    const entry = lstatSync(path);
    if (entry.isSymbolicLink()) return entry;
    const isKept = entry.isFile() || entry.isDirectory();
    return isKept && (entry.mode & READABLE_BY_ALL) !== 0 ? entry : undefined;
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
