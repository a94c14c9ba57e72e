/** Counts the turns of the event loop, which work that never waits does not leave. */

export interface TurnCount extends Disposable {
  count(): number;
}

export function countTurns(): TurnCount {
  let turns = -1;
  let isOver = false;
  const next = (): void => {
    turns += 1;
    if (!isOver) setImmediate(next);
  };
  next();
  return {
    count: () => turns,
    [Symbol.dispose]: () => void (isOver = true),
  };
}
