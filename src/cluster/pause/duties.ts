/** What the leading front does about pauses: at the timeout, and after a front that died amid one. */

import type { ClusterContext } from "../context.ts";
import { addressOf, type Pod } from "../objects.ts";
import type { Observations } from "../observations.ts";
import { isParked } from "../present-state.ts";
import type { KnownSandbox } from "../records.ts";
import { pausePod, takeOverPause } from "./pause.ts";
import { removePod } from "./remove-pod.ts";
import { undoResume } from "./resume.ts";

/** A front whose Lease is seen late is not taken for dead, nor a Pod that ends for one that stays. */
const GRACE_MS = 5_000;
/** A sandbox that cannot be paused at its timeout outlives it by so much, and ends then. */
const PATIENCE_MS = 600_000;

export interface PauseDuties {
  /** What is to be done about a record, which may be nothing yet; undefined for other duties. */
  dutyOf(stored: KnownSandbox, since: Pick<Observations, "lasts">): PauseDuty | undefined;
}

type PauseDuty = "wait" | (() => Promise<unknown>);

/** Attempts that fail stop the programs for a moment each. */
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

interface Failing {
  /** Of the run that it is about. */
  readonly endAtMs: number;
  readonly sinceMs: number;
  readonly retryAtMs: number;
}

export function createPauseDuties(context: ClusterContext): PauseDuties {
  /** Pauses take long: the look goes on meanwhile. */
  const running = new Set<string>();
  const failing = new Map<string, Failing>();
  const patienceMs = PATIENCE_MS * (context.graceShare ?? 1);

  function noteFailure({ sandboxId, endAtMs }: KnownSandbox["record"]): void {
    // Of one that was taken over before its timeout nothing is known about that yet.
    if (endAtMs > context.clock.now()) return;
    for (const known of failing.keys()) {
      if (!context.records.items.has(known)) failing.delete(known);
    }
    const nowMs = performance.now();
    const sinceMs = failing.get(sandboxId)?.sinceMs ?? nowMs;
    const waitMs = Math.min(Math.max(nowMs - sinceMs, FIRST_RETRY_MS), MAX_RETRY_MS);
    failing.set(sandboxId, { endAtMs, sinceMs, retryAtMs: nowMs + waitMs });
  }

  function failingOf({ sandboxId, endAtMs }: KnownSandbox["record"]): Failing | undefined {
    const known = failing.get(sandboxId);
    if (known?.endAtMs !== endAtMs) failing.delete(sandboxId);
    return failing.get(sandboxId);
  }

  /** Its faults are logged here. */
  async function attempt(record: KnownSandbox["record"], work: () => Promise<void>): Promise<void> {
    const { sandboxId } = record;
    running.add(sandboxId);
    try {
      await work();
      failing.delete(sandboxId);
    } catch (error) {
      context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "pause failed");
      noteFailure(record);
    } finally {
      running.delete(sandboxId);
    }
  }

  function inBackground(record: KnownSandbox["record"], work: () => Promise<void>): PauseDuty {
    if (running.has(record.sandboxId)) return "wait";
    return async () => void context.track(attempt(record, work));
  }

  /** Of one that has a change under way. */
  function changeDuty(stored: KnownSandbox, { lasts, pod }: Seen): PauseDuty | undefined {
    const { change, record } = stored;
    if (change === undefined) return undefined;
    const runs = pod !== undefined && addressOf(pod) !== undefined;
    // A pause needs its Pod: without it the sandbox ends as any other.
    if (change.kind === "pausing" && !runs && !running.has(record.sandboxId)) return undefined;
    if (context.fronts.isAlive(change.owner) || !lasts(change.kind, GRACE_MS)) return "wait";
    if (change.kind === "resuming") return async () => undoResume(context, stored);
    return inBackground(record, async () => takeOverPause(context, stored));
  }

  return {
    dutyOf(stored, since) {
      const { record } = stored;
      const { sandboxId, team, state } = record;
      const lasts = (what: string, ms: number) => since.lasts(`${what} ${sandboxId}`, ms);
      const pod = context.pods.items.get(sandboxId);
      if (stored.change !== undefined) return changeDuty(stored, { lasts, pod });
      if (state === "paused") {
        const isLeft = pod !== undefined && pod.metadata.deletionTimestamp === undefined;
        if (!isLeft || !lasts("parked", GRACE_MS)) return "wait";
        return async () => {
          if (await isParked(context, sandboxId)) await removePod(context.api, pod);
        };
      }
      const isDue = record.pausesAtTimeout && record.endAtMs <= context.clock.now();
      if (state !== "running" || !isDue || pod === undefined || addressOf(pod) === undefined)
        return undefined;
      const known = failingOf(record);
      const nowMs = performance.now();
      // Other duties end it.
      if (known !== undefined && nowMs - known.sinceMs > patienceMs) return undefined;
      if (known !== undefined && nowMs < known.retryAtMs) return "wait";
      return inBackground(record, async () => pausePod(context, { team, sandboxId }, "timeout"));
    },
  };
}

interface Seen {
  readonly lasts: (what: string, ms: number) => boolean;
  readonly pod: Pod | undefined;
}
