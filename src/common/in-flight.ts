/** How much memory the requests and replies of a team may take at once: one team must not take all. */

/** Four of the largest bodies, or eight of the largest lists that nobody reads. */
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

/** For replies: what is told to whoever has too much. */
export const IN_FLIGHT_TEXT = `requests and replies of your team exceed ${MAX_BYTES_PER_TEAM} bytes at once`;
