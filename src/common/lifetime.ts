/** Small tools for things that begin and must end. */

/** Resolves with the promise, or rejects with `makeError()` when `ms` pass first. */
export async function withDeadline<T>(
  promise: Promise<T>,
  ms: number,
  makeError: () => Error,
): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(makeError()), ms);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A queue of tasks of which at most `limit` run at once, in order of arrival. */
export interface Gate {
  run<T>(task: () => Promise<T>): Promise<T>;
}

/** At most `limit` tasks at once; the others wait their turn. */
export function createGate(limit: number): Gate {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async run(task) {
      if (running >= limit) {
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.push(resolve);
        await promise;
      }
      running += 1;
      try {
        return await task();
      } finally {
        running -= 1;
        waiting.shift()?.();
      }
    },
  };
}
