/**
 * How a thing that a home has once is made. It is written as a draft beside its place and renamed into
 * it when it is complete; callers of this process share one attempt, and processes exclude each other
 * by a lock of the home. The lock only saves work and tells drafts of dead makers from live ones: two
 * makers that lost it would still fill a draft each.
 */

import { randomBytes } from "node:crypto";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { isCode } from "../../common/errors.ts";
import { draftOf, listFolder } from "../../common/files.ts";
import { orCanceled } from "../../common/or-canceled.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { type LockName, tryLock, withLock } from "./lock.ts";

const DRAFT_BYTES = 4;
const DRAFT_END = draftOf("");
/** Who only looks whether the thing is there holds the lock no longer than this. */
const LOOK_SECONDS = 2;

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
    if (isCode(error, "ENOENT")) return;
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

/** The same without the lock: nothing is removed while a maker is at work. */
export async function removeDeadDrafts(
  { home, folder, prefix, lock: name }: Drafts,
  tell: TellFailure,
): Promise<string[]> {
  if ((await listDrafts(folder, prefix)).length === 0) return [];
  await using lock = await tryLock(home, name, LOOK_SECONDS);
  return lock === undefined ? [] : await removeDrafts(folder, prefix, tell);
}

async function listDrafts(folder: string, prefix: string): Promise<string[]> {
  const names = await listFolder(folder);
  return names.filter((name) => name.startsWith(prefix) && name.endsWith(DRAFT_END));
}

export interface OnceTask<T> {
  readonly home: string;
  readonly lock: LockName;
  /** How long to wait for a maker in another process; default that of the lock. */
  readonly timeoutMs?: number;
  /** What there is, complete; asked again once the lock is held. */
  find(): Promise<T | undefined>;
  /** Called while the lock is held. The signal fires when no caller waits for the result any more. */
  make(signal: AbortSignal): Promise<T>;
}

/** One attempt, and how many callers wait for it. */
interface Attempt<T> {
  readonly result: Promise<T>;
  readonly stop: AbortController;
  waiting: number;
}

/**
 * Returns a function that finds a thing or makes it; calls of one path share one attempt. A caller's
 * signal ends its own waiting, and the attempt with the last one that waits.
 */
export function createOnce<T>() {
  const attempts = new Map<string, Attempt<T>>();

  function begin(path: string, task: OnceTask<T>): Attempt<T> {
    const stop = new AbortController();
    const attempt = { result: attemptOf(task, stop.signal), stop, waiting: 0 };
    attempts.set(path, attempt);
    const forget = () => forgetAttempt(path, attempt);
    attempt.result.then(forget, forget);
    return attempt;
  }

  function forgetAttempt(path: string, attempt: Attempt<T>): void {
    if (attempts.get(path) === attempt) attempts.delete(path);
  }

  return async (path: string, task: OnceTask<T>, signal?: AbortSignal): Promise<T> => {
    const found = await task.find();
    if (found !== undefined) return found;
    const attempt = attempts.get(path) ?? begin(path, task);
    attempt.waiting += 1;
    try {
      if (signal === undefined) return await attempt.result;
      return await orCanceled(attempt.result, signal, "no longer waited for");
    } finally {
      attempt.waiting -= 1;
      if (attempt.waiting === 0) {
        // A caller that comes later begins anew instead of joining what is being stopped.
        forgetAttempt(path, attempt);
        attempt.stop.abort();
      }
    }
  };
}

async function attemptOf<T>(task: OnceTask<T>, signal: AbortSignal): Promise<T> {
  const { home, lock: name, timeoutMs } = task;
  return withLock(
    { home, name, timeoutMs, signal },
    async () => (await task.find()) ?? task.make(signal),
  );
}
