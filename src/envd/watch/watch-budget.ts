/** How much all watches of the daemon together may hold. */

import { SandboxError } from "../../common/errors.ts";

/** One kernel watch each, of a per-user allowance that other sandboxes share. */
const MAX_DIRECTORIES = 16_384;
/** Some 100 bytes each: 20 MB of the daemon's heap. */
const MAX_ENTRIES = 200_000;
/** Some 150 bytes each; they wait only until they are applied. */
const MAX_KERNEL_EVENTS = 200_000;

type Kind = "directories" | "entries" | "events";

export interface WatchBudget {
  /** @throws SandboxError resource_exhausted when all watches together would hold too much. */
  reserve(kind: Kind): void;
  release(kind: Kind, count: number): void;
  /** The error that says that there are too many. */
  exceeded(kind: Kind): SandboxError;
}

/** A budget of which nothing is used. */
export function createWatchBudget(): WatchBudget {
  const limits: Readonly<Record<Kind, number>> = {
    directories: MAX_DIRECTORIES,
    entries: MAX_ENTRIES,
    events: MAX_KERNEL_EVENTS,
  };
  const used: Record<Kind, number> = { directories: 0, entries: 0, events: 0 };
  const exceeded = (kind: Kind) => {
    const message = `queue or buffer overflow: more than ${limits[kind]} watched ${kind}`;
    return new SandboxError("resource_exhausted", message);
  };
  return {
    reserve(kind) {
      if (used[kind] >= limits[kind]) throw exceeded(kind);
      used[kind] += 1;
    },
    release(kind, count) {
      used[kind] -= count;
    },
    exceeded,
  };
}
