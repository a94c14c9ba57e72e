/** Pauses at their timeout that fail: they are tried again, each time later, for a bounded time. */

import type { Clock } from "../../common/clock.ts";
import type { KnownSandbox } from "../records.ts";

/** A sandbox that cannot be paused at its timeout outlives it by so much, and ends then. */
const PATIENCE_MS = 600_000;
/** Attempts that fail stop the programs for a moment each. */
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

type Run = Pick<KnownSandbox["record"], "sandboxId" | "endAtMs">;

export interface TimeoutRetries {
  /** The time in which it waited for a place is none in which it failed. */
  noteFailure(run: Run, waitedMs: number): void;
  forget(sandboxId: string): void;
  /** What the next attempt of this run does. */
  stateOf(run: Run): "due" | "waiting" | "over";
}

interface Failing {
  /** Of the run that it is about. */
  readonly endAtMs: number;
  readonly sinceMs: number;
  readonly retryAtMs: number;
}

export interface TimeoutRetriesOptions {
  readonly records: { readonly items: { has(sandboxId: string): boolean } };
  readonly clock: Pick<Clock, "now">;
  /** Of the usual time, in tests. */
  readonly graceShare?: number | undefined;
  /** Of a clock that is never set. */
  readonly monotonicMs?: () => number;
}

export function createTimeoutRetries({
  records,
  clock,
  graceShare = 1,
  monotonicMs = () => performance.now(),
}: TimeoutRetriesOptions): TimeoutRetries {
  const failing = new Map<string, Failing>();
  const patienceMs = PATIENCE_MS * graceShare;
  return {
    noteFailure({ sandboxId, endAtMs }, waitedMs) {
      // Of one that was taken over before its timeout nothing is known about that yet.
      if (endAtMs > clock.now()) return;
      for (const name of failing.keys()) if (!records.items.has(name)) failing.delete(name);
      const nowMs = monotonicMs();
      const known = failing.get(sandboxId);
      const sinceMs = known === undefined ? nowMs : Math.min(known.sinceMs + waitedMs, nowMs);
      const waitMs = Math.min(Math.max(nowMs - sinceMs, FIRST_RETRY_MS), MAX_RETRY_MS);
      failing.set(sandboxId, { endAtMs, sinceMs, retryAtMs: nowMs + waitMs });
    },
    forget: (sandboxId) => void failing.delete(sandboxId),
    stateOf({ sandboxId, endAtMs }) {
      const known = failing.get(sandboxId);
      if (known === undefined) return "due";
      if (known.endAtMs !== endAtMs) {
        failing.delete(sandboxId);
        return "due";
      }
      const nowMs = monotonicMs();
      if (nowMs - known.sinceMs > patienceMs) return "over";
      return nowMs < known.retryAtMs ? "waiting" : "due";
    },
  };
}
