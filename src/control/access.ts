/** Who may call the control API, and how often one team may create sandboxes. */

import type { IncomingHttpHeaders } from "node:http";
import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import type { KeyCheck } from "../sandboxes/keys.ts";
import { API_KEY_HEADER } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";

const KEY_PREFIX = "e2b_";
const HEX_PATTERN = /^[0-9a-f]+$/i;

/** A burst as large as a whole fork operation and more, and then faster than a machine starts them. */
export const RATE_LIMIT_BURST = 200;
const PER_SECOND = 20;

/**
 * The team of the key.
 * @throws SandboxError unauthenticated, with the reason that the wire names.
 */
export function requireKey(headers: IncomingHttpHeaders, keys: KeyCheck): string {
  const key = headers[API_KEY_HEADER];
  if (typeof key !== "string" || key === "") throw refuse(MESSAGES.keyMissing);
  const team = keys.teamOf(key);
  if (team !== undefined) return team;
  if (!key.startsWith(KEY_PREFIX)) throw refuse(MESSAGES.keyMalformed);
  if (!HEX_PATTERN.test(key.slice(KEY_PREFIX.length))) throw refuse(MESSAGES.keyNotHex);
  throw refuse(MESSAGES.keyUnknown);
}

function refuse(message: string): SandboxError {
  return new SandboxError("unauthenticated", message);
}

export interface RateLimit {
  /** Takes so many; 0 when they may begin, else whole seconds until they may. */
  take(team: string, amount: number): number;
}

interface Bucket {
  readonly left: number;
  readonly atMs: number;
}

/** One bucket for each team that has a key, so there are few. */
export function createRateLimit(clock: Clock): RateLimit {
  const buckets = new Map<string, Bucket>();
  return {
    take(team, amount) {
      const nowMs = clock.elapsed();
      const { left, atMs } = buckets.get(team) ?? { left: RATE_LIMIT_BURST, atMs: nowMs };
      const gained = ((nowMs - atMs) / 1000) * PER_SECOND;
      const present = Math.min(left + gained, RATE_LIMIT_BURST);
      const isEnough = present >= amount;
      buckets.set(team, { left: isEnough ? present - amount : present, atMs: nowMs });
      return isEnough ? 0 : Math.max(Math.ceil((amount - present) / PER_SECOND), 1);
    },
  };
}
