/**
 * Drafts: what is written beside its place and renamed into it when it is complete. A draft whose
 * maker is dead is known by the lock that a living maker holds.
 */

import { randomBytes } from "node:crypto";
import { readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { causeCode } from "../../common/errors.ts";
import { draftOf } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { tryLock, type LockName } from "./lock.ts";

const DRAFT_BYTES = 4;
const DRAFT_END = draftOf("");

/** Each maker has a draft of its own: two of them could not tell their files apart. */
export function newDraft(target: string): string {
  return draftOf(`${target}.${randomBytes(DRAFT_BYTES).toString("hex")}`);
}

/** Removes a folder that nothing uses; its name goes first, so that half of it is never seen. */
export async function discardFolder(directory: string): Promise<void> {
  const draft = newDraft(directory);
  try {
    await rename(directory, draft);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return;
    throw error;
  }
  await removeTree(draft);
}

/**
 * Removes the drafts in a folder whose names begin so; returns the names of those that went. For the
 * holder of their makers' lock.
 */
export async function removeDrafts(
  folder: string,
  prefix: string,
  tell: TellFailure = () => undefined,
): Promise<string[]> {
  const names = await listDrafts(folder, prefix);
  const remove = async (name: string) => removeTree(join(folder, name));
  return cleanUp({ kind: "draft", names, remove }, tell);
}

export interface Drafts {
  readonly home: string;
  readonly folder: string;
  readonly prefix: string;
  readonly lock: LockName;
}

/** The same for anybody: nothing is removed while a maker lives. */
export async function removeDeadDrafts(
  { home, folder, prefix, lock: name }: Drafts,
  tell: TellFailure,
): Promise<string[]> {
  if ((await listDrafts(folder, prefix)).length === 0) return [];
  await using lock = await tryLock(home, name);
  return lock === undefined ? [] : await removeDrafts(folder, prefix, tell);
}

async function listDrafts(folder: string, prefix: string): Promise<string[]> {
  try {
    const names = await readdir(folder);
    return names.filter((name) => name.startsWith(prefix) && name.endsWith(DRAFT_END));
  } catch (error) {
    if (causeCode(error) === "ENOENT") return [];
    throw error;
  }
}
