/** What the leading front does about pauses: at the timeout, and after a front that died amid one. */

import { addressOf, type Pod } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import type { Observations } from "../observations.ts";
import { isParked } from "../present-state.ts";
import type { KnownSandbox } from "../records.ts";
import { pausePod, takeOverPause } from "./pause.ts";
import { removePod } from "./remove-pod.ts";
import { undoResume } from "./resume.ts";
import { createTimeoutRetries } from "./timeout-retries.ts";

/** A front whose Lease is seen late is not taken for dead, nor a Pod that ends for one that stays. */
const GRACE_MS = 5_000;
/** Longer than each may take, its undoing included: that of a front that lives is over by then, or forgotten. */
const MAX_CHANGE_MS = { pausing: 1_800_000, resuming: 180_000 } as const;

export interface PauseDuties {
  /** What is to be done about a record, which may be nothing yet; undefined for other duties. */
  dutyOf(stored: KnownSandbox, since: Pick<Observations, "lasts">): PauseDuty | undefined;
}

/** It tells when it has a place. */
type Work = (onPlace: () => void) => Promise<void>;

type PauseDuty = "wait" | (() => Promise<unknown>);

export function createPauseDuties(context: ClusterContext): PauseDuties {
  /** Pauses take long: the look goes on meanwhile. */
  const running = new Set<string>();
  const retries = createTimeoutRetries(context);

  /** Its faults are logged here. */
  async function attempt(record: KnownSandbox["record"], work: Work): Promise<void> {
    const { sandboxId } = record;
    running.add(sandboxId);
    const beganMs = performance.now();
    let placedAtMs: number | undefined;
    try {
      await work(() => (placedAtMs ??= performance.now()));
      retries.forget(sandboxId);
    } catch (error) {
      context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "pause failed");
      retries.noteFailure(record, (placedAtMs ?? performance.now()) - beganMs);
    } finally {
      running.delete(sandboxId);
    }
  }

  function inBackground(record: KnownSandbox["record"], work: Work): PauseDuty {
    if (running.has(record.sandboxId)) return "wait";
    return async () => void context.track(attempt(record, work));
  }

  /** Of one that has a change under way. */
  function changeDuty(stored: KnownSandbox, { lasts, pod }: Seen): PauseDuty | undefined {
    const { change, record } = stored;
    if (change === undefined) return undefined;
    const { kind, owner } = change;
    // The next change may begin before a look finds none.
    const own = change.attempt ?? owner;
    const runs = pod !== undefined && addressOf(pod) !== undefined;
    // A pause needs its Pod: without it the sandbox ends as any other.
    if (kind === "pausing" && !runs && !running.has(record.sandboxId)) return undefined;
    const isLong = lasts(`${kind} ${own}`, MAX_CHANGE_MS[kind]);
    const isLeft = !context.fronts.isAlive(owner) && lasts(`left ${own}`, GRACE_MS);
    if (!isLong && !isLeft) return "wait";
    if (kind === "resuming") return async () => undoResume(context, stored);
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
      const next = retries.stateOf(record);
      // Other duties end it.
      if (next === "over") return undefined;
      if (next === "waiting") return "wait";
      return inBackground(record, async (onPlace) =>
        pausePod(context, { team, sandboxId }, { reason: "timeout", onPlace }),
      );
    },
  };
}

interface Seen {
  readonly lasts: (what: string, ms: number) => boolean;
  readonly pod: Pod | undefined;
}
