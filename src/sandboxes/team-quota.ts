/**
 * Who may have one more sandbox. There is one bound for all teams, one for each team, and a share
 * for each team that has a key: what is free is kept for those that have less than their share.
 */

import { SandboxError } from "../common/errors.ts";
import { tooManySandboxes } from "../wire/messages.ts";

export interface QuotaRules {
  readonly maxSandboxes: number;
  /** Undefined: what the shares of the other teams leave. */
  readonly maxSandboxesPerTeam?: number | undefined;
}

/** What a team may have, as numbers of sandboxes. */
export interface Shares {
  /** Never more than this. */
  readonly limit: number;
  /** Up to this, nothing is kept from it for others. */
  readonly guaranteed: number;
}

/** Counts a sandbox that is being started until it counts by itself. Released once. */
export type Reservation = Disposable;

export interface TeamQuota {
  /** How many are being started, for all teams. */
  readonly starting: number;
  /** Reserves one, before anything is awaited. @throws SandboxError resource_exhausted */
  take(team: string): Reservation;
  sharesOf(team: string): Shares;
}

export interface TeamQuotaOptions extends QuotaRules {
  /** Those that have a key now. */
  teams(): readonly string[];
  /** How many sandboxes each team has that were started, paused ones included. */
  count(): ReadonlyMap<string, number>;
}

/** It is unknown when a place will be free, so no time to wait is named. */
export function atCapacity(message: string): SandboxError {
  return new SandboxError("resource_exhausted", message, { word: "sandbox_capacity_unavailable" });
}

export function createTeamQuota(options: TeamQuotaOptions): TeamQuota {
  const starting = new Map<string, number>();
  const sum = () => [...starting.values()].reduce((total, amount) => total + amount, 0);
  return {
    get starting() {
      return sum();
    },
    take(team) {
      const present = new Map(options.count());
      for (const [name, amount] of starting) present.set(name, (present.get(name) ?? 0) + amount);
      const fault = findFault(options, { team, teams: options.teams(), present });
      if (fault !== undefined) throw atCapacity(fault);
      starting.set(team, (starting.get(team) ?? 0) + 1);
      let isTaken = true;
      return {
        [Symbol.dispose]() {
          if (!isTaken) return;
          isTaken = false;
          const left = (starting.get(team) ?? 1) - 1;
          if (left > 0) starting.set(team, left);
          else starting.delete(team);
        },
      };
    },
    sharesOf: (team) => toShares(options, new Set([...options.teams(), team]).size),
  };
}

/**
 * Half of all sandboxes are shared out, so that an active team can use what idle ones leave. A team
 * alone has all of them; where there are more teams than sandboxes, none has more than half.
 */
export function toShares(rules: QuotaRules, teams: number): Shares {
  const { maxSandboxes, maxSandboxesPerTeam = maxSandboxes } = rules;
  if (teams <= 1) {
    const limit = Math.min(maxSandboxesPerTeam, maxSandboxes);
    return { limit, guaranteed: limit };
  }
  const half = Math.floor(maxSandboxes / 2);
  const least = teams <= maxSandboxes ? 1 : 0;
  const share = Math.max(Math.floor(maxSandboxes / (2 * teams)), least);
  const reserve = share === 0 ? half : (teams - 1) * share;
  const limit = Math.min(maxSandboxesPerTeam, Math.max(maxSandboxes - reserve, 1));
  return { limit, guaranteed: Math.min(share, limit) };
}

/** Who asks, who else has a key, and what each has, starts included. */
interface Request {
  readonly team: string;
  readonly teams: readonly string[];
  readonly present: ReadonlyMap<string, number>;
}

function findFault(rules: QuotaRules, { team, teams, present }: Request): string | undefined {
  const { maxSandboxes } = rules;
  const known = new Set([...teams, team]);
  const shares = toShares(rules, known.size);
  const { limit, guaranteed } = shares;
  const own = present.get(team) ?? 0;
  const free = maxSandboxes - [...present.values()].reduce((total, amount) => total + amount, 0);
  const kept = [...known]
    .filter((name) => name !== team)
    .reduce((total, name) => total + Math.max(guaranteed - (present.get(name) ?? 0), 0), 0);
  const isFree = free > 0 && (own < guaranteed || free > kept);
  if (own < limit && isFree) return undefined;
  return tooManySandboxes({ own, limit, guaranteed, maxSandboxes, countsPaused: true });
}
