/** How much all watches of the daemon together may hold. */

import { SandboxError } from "../../common/errors.ts";

/** One kernel watch each, of a per-user allowance that other sandboxes share. */
const MAX_DIRECTORIES = 16_384;
/** Some 100 bytes each: 20 MB of the daemon's heap. */
const MAX_ENTRIES = 200_000;
/** Some 150 bytes each; they wait only until they are applied. */
const MAX_KERNEL_EVENTS = 200_000;

export type WatchedKind = "directories" | "entries" | "events";

export interface WatchBudget {
  /** @throws SandboxError resource_exhausted when all watches together would hold too much. */
  reserve(kind: WatchedKind): void;
  release(kind: WatchedKind, count: number): void;
  /** The error that says that there are too many. */
  exceeded(kind: WatchedKind): SandboxError;
}

/** The part of one watch. */
export interface WatchShare extends WatchBudget {
  /** What this watch holds. */
  held(kind: WatchedKind): number;
  /** Whether the watch was refused because of the budget. */
  readonly isRefused: boolean;
}

export interface SharedWatchBudget extends WatchBudget {
  /** A watch may exceed the limits by what others would give up for it. */
  share(spare: (kind: WatchedKind) => number): WatchShare;
  /** The error that says which limit is exceeded; undefined where none is. */
  excess(): SandboxError | undefined;
}

/** A budget of which nothing is used. */
export function createWatchBudget(): SharedWatchBudget {
  const limits: Readonly<Record<WatchedKind, number>> = {
    directories: MAX_DIRECTORIES,
    entries: MAX_ENTRIES,
    events: MAX_KERNEL_EVENTS,
  };
  const used: Record<WatchedKind, number> = { directories: 0, entries: 0, events: 0 };
  const exceeded = (kind: WatchedKind) => {
    const message = `queue or buffer overflow: more than ${limits[kind]} watched ${kind}`;
    return new SandboxError("resource_exhausted", message);
  };
  function share(spare: (kind: WatchedKind) => number): WatchShare {
    const own: Record<WatchedKind, number> = { directories: 0, entries: 0, events: 0 };
    let isRefused = false;
    const refuse = (kind: WatchedKind) => {
      isRefused = true;
      return exceeded(kind);
    };
    return {
      reserve(kind) {
        if (used[kind] >= limits[kind] && used[kind] >= limits[kind] + spare(kind)) {
          throw refuse(kind);
        }
        used[kind] += 1;
        own[kind] += 1;
      },
      release(kind, count) {
        used[kind] -= count;
        own[kind] -= count;
      },
      exceeded: refuse,
      held: (kind) => own[kind],
      get isRefused() {
        return isRefused;
      },
    };
  }
  return {
    ...share(() => 0),
    share,
    excess() {
      const kind = KINDS.find((each) => used[each] > limits[each]);
      return kind === undefined ? undefined : exceeded(kind);
    },
  };
}

const KINDS = ["directories", "entries"] as const;
