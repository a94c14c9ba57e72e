/**
 * Passes of fronts that were used: each counts once. The oldest ones are forgotten for new ones, and no
 * pass that is as old as one of those is taken any more.
 */

import { MAX_SKEW_MS } from "../wire/pod-listener.ts";

/** Used passes that are remembered: each connection of a client is one. */
const MAX_USED = 65_536;

export interface UsedPasses {
  /** False for one that was used, that is too old, or that comes from a clock far ahead. */
  take(nonce: string, atMs: number): boolean;
}

export function createUsedPasses(now: () => number = Date.now): UsedPasses {
  const used = new Map<string, number>();
  let newestForgottenMs = Number.NEGATIVE_INFINITY;

  function forgetOldest(nowMs: number): void {
    for (const [nonce, atMs] of used) {
      if (used.size <= MAX_USED && atMs + MAX_SKEW_MS >= nowMs) return;
      used.delete(nonce);
      // A clock that is set back would let even an expired one count again.
      newestForgottenMs = Math.max(newestForgottenMs, atMs);
    }
  }

  return {
    take(nonce, atMs) {
      const nowMs = now();
      if (Math.abs(nowMs - atMs) > MAX_SKEW_MS) return false;
      if (atMs <= newestForgottenMs || used.has(nonce)) return false;
      used.set(nonce, atMs);
      forgetOldest(nowMs);
      return true;
    },
  };
}
