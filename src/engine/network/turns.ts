/** Steps for one owner, one at a time and in their order. */

export interface Turns {
  /** Does the work once every earlier one of this owner has ended, however. */
  run(owner: string, work: () => Promise<void>): Promise<void>;
}

/** Nothing is kept of an owner without work. */
export function createTurns(): Turns {
  const turns = new Map<string, Promise<void>>();
  return {
    async run(owner, work) {
      const before = turns.get(owner) ?? Promise.resolve();
      const turn = before.then(work);
      const settled = turn.catch(() => undefined);
      turns.set(owner, settled);
      try {
        await turn;
      } finally {
        if (turns.get(owner) === settled) turns.delete(owner);
      }
    },
  };
}
