/**
 * Limits on what is under way at once: tasks, and the memory of the requests and replies of a team,
 * so that one team does not take all of it.
 */

/** Four of the largest bodies, or eight of the largest lists that are not read. */
const MAX_BYTES_PER_TEAM = 67_108_864;

/** The bytes of one call, until it is over. */
export interface HeldBytes extends Disposable {
  /** False, and nothing is added, when the team would have too many. */
  add(team: string, bytes: number): boolean;
}

export interface InFlight {
  open(): HeldBytes;
}

/** Counts for each team that has a call under way. */
export function createInFlight(): InFlight {
  const totals = new Map<string, number>();

  function change(team: string, bytes: number): void {
    const total = (totals.get(team) ?? 0) + bytes;
    if (total > 0) totals.set(team, total);
    else totals.delete(team);
  }

  return {
    open() {
      const held = new Map<string, number>();
      return {
        add(team, bytes) {
          if ((totals.get(team) ?? 0) + bytes > MAX_BYTES_PER_TEAM) return false;
          change(team, bytes);
          held.set(team, (held.get(team) ?? 0) + bytes);
          return true;
        },
        [Symbol.dispose]() {
          for (const [team, bytes] of held) change(team, -bytes);
          held.clear();
        },
      };
    },
  };
}

/** The text of the refusal. */
export const IN_FLIGHT_TEXT = `requests and replies of your team exceed ${MAX_BYTES_PER_TEAM} bytes at once`;

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
      } else {
        running += 1;
      }
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        // The next one takes this place: one that comes before it goes on would find a free one.
        if (next === undefined) running -= 1;
        else next();
      }
    },
  };
}

/** Runs work that its owner waits for when it closes. */
export type Track = <T>(work: Promise<T>) => Promise<T>;

/** Tracks work that is under way. */
export function createTrack(): {
  readonly pending: ReadonlySet<Promise<unknown>>;
  readonly track: Track;
} {
  const pending = new Set<Promise<unknown>>();
  return {
    pending,
    async track(work) {
      pending.add(work);
      try {
        return await work;
      } finally {
        pending.delete(work);
      }
    },
  };
}

/** Waits for all of them even when one fails: what still runs could undo the clean-up. */
export async function allEnded(tasks: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(tasks);
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}
