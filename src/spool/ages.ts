/**
 * How old spools are. Their files have the time of the wall clock; a process that looks again and again
 * counts on with the monotonic one, so a clock that is set takes no output away.
 */

import type { Clock } from "../common/clock.ts";
import type { Entry } from "./folders.ts";

export type SpoolClock = Pick<Clock, "now" | "elapsed">;
/** Milliseconds since it ended, or was last seen in use. */
export type AgeOf = (entry: Entry) => number;

/** What is not there any more is forgotten after so long, and not at once: a look can fail. */
const FORGET_MS = 3_600_000;

interface Seen {
  readonly atMs: number;
  /** The same moment by the monotonic clock. */
  readonly sinceMs: number;
  readonly askedAtMs: number;
}

export function createAges(clock: SpoolClock): { look(): AgeOf } {
  const seen = new Map<string, Seen>();
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  return {
    /** The ages at this moment; each entry that is there is to be asked for. */
    look() {
      const nowMs = clock.now();
      const elapsedMs = clock.elapsed();
      for (const [folder, { askedAtMs }] of seen) {
        if (elapsedMs - askedAtMs > FORGET_MS) seen.delete(folder);
      }
      const sinceLookMs = elapsedMs - lookedAtMs;
      lookedAtMs = elapsedMs;
      return ({ place, endedAtMs, changedAtMs }) => {
        const atMs = endedAtMs ?? changedAtMs;
        const known = seen.get(place.folder);
        // The distance in time: a clock that was set back must not keep a spool for ever. What was not
        // there at the last look is not older than that.
        const newAgeMs = Math.min(Math.abs(nowMs - atMs), sinceLookMs);
        const sinceMs = known?.atMs === atMs ? known.sinceMs : elapsedMs - newAgeMs;
        seen.set(place.folder, { atMs, sinceMs, askedAtMs: elapsedMs });
        return elapsedMs - sinceMs;
      };
    },
  };
}
