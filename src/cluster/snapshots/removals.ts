/**
 * Removals of images that are due: a few at once, beside the other duties. One that fails, whatever for,
 * goes behind the others and is tried again later, so that it keeps none of them waiting.
 */

import { createBackoff, type Backoff } from "../../common/backoff.ts";

const AT_ONCE = 4;
const FIRST_RETRY_MS = 2_000;
/** A registry may refuse for days. */
const MAX_RETRY_MS = 300_000;

/** A snapshot that is due. */
export interface Removal {
  readonly buildId: string;
  /** Resolves when it is done, or no longer due. */
  readonly run: () => Promise<void>;
}

export interface Removals {
  /** Begins what has waited longest; those that are not named any more are forgotten. */
  look(due: readonly Removal[]): void;
}

interface Failing {
  readonly backoff: Backoff;
  readonly triedAtMs: number;
  readonly retryAtMs: number;
}

export interface RemovalsOptions {
  /** Closing waits for what is under way. */
  readonly track: (work: Promise<void>) => Promise<void>;
  readonly onFault: (buildId: string, error: unknown) => void;
  /** Of the usual waits, in tests. */
  readonly graceShare?: number | undefined;
}

export function createRemovals({ track, onFault, graceShare = 1 }: RemovalsOptions): Removals {
  const running = new Set<string>();
  const failing = new Map<string, Failing>();

  /** It never rejects. */
  async function attempt({ buildId, run }: Removal): Promise<void> {
    running.add(buildId);
    try {
      await run();
      failing.delete(buildId);
    } catch (error) {
      const backoff = failing.get(buildId)?.backoff ?? createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
      const nowMs = performance.now();
      const retryAtMs = nowMs + backoff.next() * graceShare;
      failing.set(buildId, { backoff, triedAtMs: nowMs, retryAtMs });
      onFault(buildId, error);
    } finally {
      running.delete(buildId);
    }
  }

  const triedAtMs = ({ buildId }: Removal) => failing.get(buildId)?.triedAtMs ?? 0;
  return {
    look(due) {
      const names = new Set(due.map(({ buildId }) => buildId));
      for (const buildId of failing.keys()) {
        if (!names.has(buildId) && !running.has(buildId)) failing.delete(buildId);
      }
      const nowMs = performance.now();
      const ready = due
        .filter(({ buildId }) => !running.has(buildId))
        .filter(({ buildId }) => (failing.get(buildId)?.retryAtMs ?? 0) <= nowMs)
        .toSorted((left, right) => triedAtMs(left) - triedAtMs(right));
      // What it tells of its end is awaited when the front closes.
      for (const one of ready.slice(0, AT_ONCE - running.size)) void track(attempt(one));
    },
  };
}
