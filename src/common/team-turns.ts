/**
 * Limits how many of one kind of work a team does at once. Clients begin more than that together and
 * take a refusal for a failure, so what is beyond the bound waits, in order of arrival.
 */

export interface TurnLimits {
  readonly maxAtOnce: number;
  /** Of all that are under way; absent where they have no size. */
  readonly maxSize?: number;
  readonly maxWaiting: number;
}

export interface TurnRequest {
  readonly team: string;
  /** At most `maxSize`; 0 by default. */
  readonly size?: number;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
}

export interface TeamTurns {
  /**
   * Waits for a turn, which lasts until the returned function is called. Undefined when too many of
   * the team wait already, and when the signal fires first.
   */
  enter(request: TurnRequest): Promise<(() => void) | undefined>;
}

/** What is under way and what waits of one team. */
interface Line {
  count: number;
  size: number;
  readonly waiting: Set<{ readonly size: number; begin(): void }>;
}

/** No turn is taken at first. */
export function createTeamTurns({
  maxAtOnce,
  maxSize = Infinity,
  maxWaiting,
}: TurnLimits): TeamTurns {
  const lines = new Map<string, Line>();

  function hasSpace(line: Line, size: number): boolean {
    return line.count < maxAtOnce && line.size + size <= maxSize;
  }

  function take(team: string, line: Line, size: number): () => void {
    lines.set(team, line);
    line.count += 1;
    line.size += size;
    return () => {
      line.count -= 1;
      line.size -= size;
      beginNext(line);
      if (line.count === 0) lines.delete(team);
    };
  }

  /** A smaller one does not overtake: one that is large would wait for ever. */
  function beginNext(line: Line): void {
    for (const next of line.waiting) {
      if (!hasSpace(line, next.size)) return;
      line.waiting.delete(next);
      next.begin();
    }
  }

  return {
    async enter({ team, size = 0, signal }) {
      const line = lines.get(team) ?? { count: 0, size: 0, waiting: new Set() };
      if (signal?.aborted) return undefined;
      if (line.waiting.size === 0 && hasSpace(line, size)) return take(team, line, size);
      if (line.waiting.size >= maxWaiting) return undefined;
      const { promise, resolve } = Promise.withResolvers<(() => void) | undefined>();
      const entry = {
        size,
        begin() {
          signal?.removeEventListener("abort", leave);
          resolve(take(team, line, size));
        },
      };
      const leave = () => {
        line.waiting.delete(entry);
        resolve(undefined);
        // What stands behind a large one may fit.
        beginNext(line);
      };
      line.waiting.add(entry);
      signal?.addEventListener("abort", leave, { once: true });
      return promise;
    },
  };
}
