/**
 * Lists a tree directory by directory where one call for it failed, past what may not be read or is too
 * large, or where it holds the kernel's own file systems.
 */

import { posix } from "node:path";
import type { Entry } from "../../client/filesystem.ts";
import { hasErrorCode, SandboxError, type ErrorCode } from "../../common/errors.ts";
import { reword } from "../replies/reword.ts";

/** Calls for one tree; each reads a directory, or a whole part of the tree that is readable. */
const MAX_CALLS = 300;
/** As many as one call returns at most. */
const MAX_ENTRIES = 20_000;
/** What the kernel makes up while it is read: no files, and tens of thousands of entries. */
const KERNEL_PATHS: ReadonlySet<string> = new Set(["/proc", "/sys"]);

export type ListDirectory = (path: string, depth: number) => Promise<readonly Entry[]>;

export interface Tree {
  readonly entries: readonly Entry[];
  /** Paths of directories that could not be read, in order. */
  readonly unreadable: readonly string[];
  /** Paths of the kernel's file systems below the directory, which were not entered. */
  readonly skipped: readonly string[];
  /** Paths of directories with more below them than one call returns: at most their own entries are there. */
  readonly large: readonly string[];
  /** Whether the limits ended it, so that deeper entries are missing. */
  readonly isCut: boolean;
}

interface TreeLimits {
  readonly depth: number;
  /** Ends a listing of many calls, each of which may take its time. */
  readonly deadline?: AbortSignal;
}

/**
 * The entries below a directory, parents before children.
 * @throws SandboxError when the directory itself cannot be listed.
 */
export async function listTree(
  list: ListDirectory,
  path: string,
  { depth, deadline }: TreeLimits,
): Promise<Tree> {
  const known = { entries: [], unreadable: [], skipped: [], large: [], isCut: false };
  const tree = { ...known, list, deadline, calls: 0 };
  if (depth <= 1) return { ...tree, entries: await list(path, depth) };
  if (!(mayBeRoot(path) && (await isRoot(list, path)))) {
    try {
      return { ...tree, entries: await list(path, depth) };
    } catch (error) {
      if (!isUnreadable(error) && !isTooLarge(error)) throw error;
    }
  }
  await collect(tree, await list(path, 1), depth - 1);
  return tree;
}

/** Whether a path without a name of its own is perhaps the root; what it is relative to is not known. */
function mayBeRoot(path: string): boolean {
  return /^[./]*$/.test(posix.normalize(path));
}

/** Whether a directory has what only the root has. */
async function isRoot(list: ListDirectory, path: string): Promise<boolean> {
  const entries = await list(path, 1);
  return entries.some((entry) => KERNEL_PATHS.has(entry.path));
}

interface Growing {
  readonly list: ListDirectory;
  readonly deadline: AbortSignal | undefined;
  readonly entries: Entry[];
  readonly unreadable: string[];
  readonly skipped: string[];
  readonly large: string[];
  calls: number;
  isCut: boolean;
}

/** Adds entries of one directory, and below each directory among them `depth` levels. */
async function collect(tree: Growing, entries: readonly Entry[], depth: number): Promise<void> {
  for (const entry of entries) {
    if (tree.entries.length >= MAX_ENTRIES) {
      tree.isCut = true;
      return;
    }
    tree.entries.push(entry);
    // A link to a directory is shown as one, and leads anywhere.
    const isOwn = entry.type === "directory" && entry.symlinkTarget === undefined;
    if (depth === 0 || !isOwn) continue;
    // One directory after the other: that is their order.
    if (KERNEL_PATHS.has(entry.path)) tree.skipped.push(entry.path);
    else await descend(tree, entry.path, depth);
  }
}

async function descend(tree: Growing, path: string, depth: number): Promise<void> {
  const whole = await attempt(tree, path, depth);
  if (Array.isArray(whole)) return add(tree, whole);
  const isLarge = whole === "too large";
  if (isLarge) tree.large.push(path);
  const own = depth > 1 ? await attempt(tree, path, 1) : undefined;
  if (Array.isArray(own)) {
    // What is below one that is too large would leave no space for what comes after it.
    await collect(tree, own, isLarge ? 0 : depth - 1);
  } else if (!tree.isCut && !isLarge) {
    tree.unreadable.push(path);
  }
}

function add(tree: Growing, entries: readonly Entry[]): void {
  const space = MAX_ENTRIES - tree.entries.length;
  tree.isCut ||= entries.length > space;
  tree.entries.push(...entries.slice(0, space));
}

/** The entries of a directory; undefined when it cannot be read, or no call or time is left. */
async function attempt(
  tree: Growing,
  path: string,
  depth: number,
): Promise<readonly Entry[] | "too large" | undefined> {
  if (tree.calls >= MAX_CALLS || tree.deadline?.aborted === true) {
    tree.isCut = true;
    return undefined;
  }
  tree.calls += 1;
  try {
    return await tree.list(path, depth);
  } catch (error) {
    if (isTooLarge(error)) return "too large";
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

/** How daemons refuse a listing that is longer than a reply may be. */
const TOO_LARGE = /\bmore than [0-9]+ (?:entries|characters of paths)/;

function isTooLarge(error: unknown): boolean {
  return hasErrorCode(error, "resource_exhausted") && TOO_LARGE.test(error.message);
}

/** What concerns one directory alone: it may not be read, vanished, or is no directory any more. */
const LOCAL_CODES: ReadonlySet<ErrorCode> = new Set([
  "permission_denied",
  "not_found",
  "invalid_argument",
  "failed_precondition",
]);

function isUnreadable(error: unknown): boolean {
  return error instanceof SandboxError && LOCAL_CODES.has(reword(error).code);
}
