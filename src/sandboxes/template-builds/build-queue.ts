/** Turns of builds: so many at once, and the next one is of the team that has the fewest running. */

export interface BuildQueue {
  /**
   * Waits for a turn, which lasts until the returned function is called. A build that is cancelled
   * while it waits needs none: it only records that it has ended.
   */
  enter(team: string, signal: AbortSignal): Promise<() => void>;
}

interface Waiting {
  readonly team: string;
  begin(): void;
}

export function createBuildQueue(atOnce: number): BuildQueue {
  let running = 0;
  const teams = new Map<string, number>();
  const waiting = new Set<Waiting>();
  const countOf = (team: string) => teams.get(team) ?? 0;

  function take(team: string): () => void {
    running += 1;
    teams.set(team, countOf(team) + 1);
    return () => {
      running -= 1;
      if (countOf(team) === 1) teams.delete(team);
      else teams.set(team, countOf(team) - 1);
      // The sort is stable: of one team, and of teams with as many, the oldest comes first.
      const [next] = [...waiting].toSorted(
        (left, right) => countOf(left.team) - countOf(right.team),
      );
      next?.begin();
    };
  }

  return {
    async enter(team, signal) {
      if (signal.aborted) return () => undefined;
      if (running < atOnce) return take(team);
      const { promise, resolve } = Promise.withResolvers<() => void>();
      const leave = () => {
        waiting.delete(entry);
        resolve(() => undefined);
      };
      const entry: Waiting = {
        team,
        begin() {
          waiting.delete(entry);
          signal.removeEventListener("abort", leave);
          resolve(take(team));
        },
      };
      waiting.add(entry);
      signal.addEventListener("abort", leave, { once: true });
      return promise;
    },
  };
}
