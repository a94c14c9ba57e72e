/** How often a team may make sandboxes: bursts pass, a loop that never ends is slowed down. */

import type { Clock } from "../common/clock.ts";

/** A burst as large as a whole fork operation and more, and then faster than a machine starts them. */
const MAX_BURST = 200;
const PER_SECOND = 20;

export interface RateLimit {
  /** Takes so many; 0 when they may begin, else whole seconds until they may. */
  take(team: string, amount: number): number;
}

interface Bucket {
  readonly left: number;
  readonly atMs: number;
}

/** One bucket for each team; only those of keys that the service knows come here, so they are few. */
export function createRateLimit(clock: Clock): RateLimit {
  const buckets = new Map<string, Bucket>();
  return {
    take(team, amount) {
      const nowMs = clock.now();
      const { left, atMs } = buckets.get(team) ?? { left: MAX_BURST, atMs: nowMs };
      const gained = (Math.max(nowMs - atMs, 0) / 1000) * PER_SECOND;
      const present = Math.min(left + gained, MAX_BURST);
      const isEnough = present >= amount;
      buckets.set(team, { left: isEnough ? present - amount : present, atMs: nowMs });
      return isEnough ? 0 : Math.max(Math.ceil((amount - present) / PER_SECOND), 1);
    },
  };
}

/** For replies: the burst that a team has. */
export const RATE_LIMIT = MAX_BURST;
