/** Looks at something that another program writes, again and again. */

import { setTimeout as sleep } from "node:timers/promises";

/**
 * Goes on until it is disposed of, or until a look resolves with true. It never fails: a look that does
 * says nothing.
 */
export function keepLooking(pauseMs: number, look: () => Promise<boolean>): AsyncDisposable {
  const end = new AbortController();
  const { signal } = end;
  const looking = lookAgain();
  async function lookAgain(): Promise<void> {
    while (!signal.aborted && !(await look().catch(() => false))) {
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
  }
  return {
    async [Symbol.asyncDispose]() {
      end.abort();
      await looking;
    },
  };
}
