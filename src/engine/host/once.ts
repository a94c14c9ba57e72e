/**
 * One maker for what a home has once: callers of this process share one attempt, processes exclude
 * each other by a lock of the home. The lock only saves work and tells dead drafts from live ones;
 * what keeps two makers apart, should a lock be lost, is that each fills a draft of its own and
 * renames it into place.
 */

import { SandboxError } from "../../common/errors.ts";
import { withLock, type LockName } from "./lock.ts";

export interface OnceTask<T> {
  readonly home: string;
  readonly lock: LockName;
  /** How long to wait for a maker in another process; default that of the lock. */
  readonly timeoutMs?: number;
  /** What there is, complete; asked again once the lock is held. */
  find(): Promise<T | undefined>;
  /** Called while the lock is held. The signal fires when nobody waits for the result any more. */
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
      return await orCanceled(attempt.result, signal);
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

async function orCanceled<T>(result: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return result;
  const { promise: canceled, reject } = Promise.withResolvers<never>();
  const cancel = () => reject(new SandboxError("canceled", "no longer waited for"));
  if (signal.aborted) cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    return await Promise.race([result, canceled]);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
