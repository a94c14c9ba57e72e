/** How many sandboxes there are: of all teams by state, and of each team. */

import type { Domain, Member } from "./domain.ts";

export interface SandboxCount {
  readonly running: number;
  readonly paused: number;
  readonly starting: number;
}

/** Of all teams. */
export function countMembers({ members, places }: Domain): SandboxCount {
  const running = [...members.values()].filter(({ run }) => run !== undefined).length;
  return { running, paused: members.size - running, starting: places.starting };
}

/** Those that were started, paused ones included; a team without any is absent. */
export function countByTeam(members: ReadonlyMap<string, Member>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { record } of members.values()) {
    counts.set(record.team, (counts.get(record.team) ?? 0) + 1);
  }
  return counts;
}
