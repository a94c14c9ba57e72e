/** Lists a tree directory by directory, past what may not be read, where one call for it failed. */

import type { Entry } from "../client/filesystem.ts";
import { SandboxError, type ErrorCode } from "../common/errors.ts";
import { reword } from "./reword.ts";

/** Calls for one tree; each reads a directory, or a whole part of the tree that is readable. */
const MAX_CALLS = 300;
/** As many as one call returns at most. */
const MAX_ENTRIES = 20_000;

export type ListDirectory = (path: string, depth: number) => Promise<readonly Entry[]>;

export interface Tree {
  readonly entries: readonly Entry[];
  /** Paths of directories that could not be read, in order. */
  readonly unreadable: readonly string[];
  /** Whether the limits ended it, so that deeper entries are missing. */
  readonly isCut: boolean;
}

/**
 * The entries below a directory, parents before children.
 * @throws SandboxError when the directory itself cannot be listed.
 */
export async function listTree(list: ListDirectory, path: string, depth: number): Promise<Tree> {
  const tree: Growing = { list, entries: [], unreadable: [], calls: 0, isCut: false };
  try {
    return { entries: await list(path, depth), unreadable: [], isCut: false };
  } catch (error) {
    if (depth <= 1 || !isUnreadable(error)) throw error;
  }
  await collect(tree, await list(path, 1), depth - 1);
  return tree;
}

interface Growing {
  readonly list: ListDirectory;
  readonly entries: Entry[];
  readonly unreadable: string[];
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
    // One directory after the other: that is their order.
    if (depth > 0 && entry.type === "directory") await descend(tree, entry.path, depth);
  }
}

async function descend(tree: Growing, path: string, depth: number): Promise<void> {
  const whole = await attempt(tree, path, depth);
  if (whole !== undefined) {
    tree.entries.push(...whole.slice(0, MAX_ENTRIES - tree.entries.length));
    return;
  }
  const own = depth > 1 ? await attempt(tree, path, 1) : undefined;
  if (own !== undefined) await collect(tree, own, depth - 1);
  else if (!tree.isCut) tree.unreadable.push(path);
}

/** The entries of a directory; undefined when it cannot be read, or no call is left. */
async function attempt(
  tree: Growing,
  path: string,
  depth: number,
): Promise<readonly Entry[] | undefined> {
  if (tree.calls >= MAX_CALLS) {
    tree.isCut = true;
    return undefined;
  }
  tree.calls += 1;
  try {
    return await tree.list(path, depth);
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
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
