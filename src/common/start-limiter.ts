/** Lets calls begin a few at a time, so that a crowd of new ones does not hold up what runs. */

/** A start that may begin at once gets nothing to wait for. */
export type StartLimiter = () => Promise<void> | undefined;

/** Lets `perTurn` through in each turn of the event loop, the rest in the order of their coming. */
export function createStartLimiter(perTurn: number): StartLimiter {
  const waiting: (() => void)[] = [];
  let passed = 0;

  function nextTurn(): void {
    const next = waiting.splice(0, perTurn);
    passed = next.length;
    if (passed > 0) setImmediate(nextTurn);
    for (const pass of next) pass();
  }

  return () => {
    if (passed === 0) setImmediate(nextTurn);
    if (passed < perTurn && waiting.length === 0) {
      passed += 1;
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    return promise;
  };
}
