/** How much all watches of the daemon together may hold. */

import { SandboxError } from "../../common/errors.ts";

/** One kernel watch each, of a per-user allowance that other sandboxes share. */
const MAX_DIRECTORIES = 16_384;
/** Some 200 bytes each: 40 MB of the daemon's heap. */
const MAX_ENTRIES = 200_000;

/** Some 150 bytes each; they wait only until the files have been looked at. */
const MAX_RAW_EVENTS = 200_000;

type Kind = "directories" | "entries" | "raw events";

export interface WatchBudget {
  /** @throws SandboxError resource_exhausted when all watches together would hold too much. */
  reserve(kind: Kind): void;
  release(kind: Kind, count: number): void;
}

/** A budget that nobody has drawn on. */
export function createWatchBudget(): WatchBudget {
  const limits: Readonly<Record<Kind, number>> = {
    directories: MAX_DIRECTORIES,
    entries: MAX_ENTRIES,
    "raw events": MAX_RAW_EVENTS,
  };
  const used: Record<Kind, number> = { directories: 0, entries: 0, "raw events": 0 };
  return {
    reserve(kind) {
      if (used[kind] >= limits[kind]) {
        const message = `queue or buffer overflow: more than ${limits[kind]} watched ${kind}`;
        throw new SandboxError("resource_exhausted", message);
      }
      used[kind] += 1;
    },
    release(kind, count) {
      used[kind] -= count;
    },
  };
}
