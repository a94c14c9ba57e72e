/** Work for one owner, one piece at a time and in its order. */

export interface Turns {
  /** Does the work once every earlier one of this owner has ended, however. */
  run<T>(owner: string, work: () => Promise<T>): Promise<T>;
}

/** Nothing is kept of an owner without work. */
export function createTurns(): Turns {
  const turns = new Map<string, Promise<unknown>>();
  return {
    async run(owner, work) {
      const before = turns.get(owner) ?? Promise.resolve();
      const turn = before.then(work);
      const settled = turn.catch(() => undefined);
      turns.set(owner, settled);
      try {
        return await turn;
      } finally {
        if (turns.get(owner) === settled) turns.delete(owner);
      }
    },
  };
}
