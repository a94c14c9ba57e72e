/**
 * What happened to a file, told from what was known of it and what is there now. The kernel's own
 * words do not reach us: Node says only `rename` (a name came or went) or `change`.
 */

import type { Stats } from "node:fs";
import { EventType } from "../../gen/filesystem/filesystem_pb.ts";

/** What is remembered of one name in a watched folder. */
export interface Seen {
  readonly dev: number;
  readonly ino: number;
  readonly birthMs: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly modifiedMs: number;
  readonly changedMs: number;
  readonly isDirectory: boolean;
  /** Content was there when the name was first seen: the news of its writing is still to come. */
  readonly isFresh: boolean;
}

/** What to report, and what to remember from now on. */
export interface Inference {
  readonly events: readonly EventType[];
  readonly seen: Seen | undefined;
}

/** A name that came and went before it could be looked at; the news of its going is to come. */
const GHOST: Seen = {
  dev: -1,
  ino: -1,
  birthMs: 0,
  mode: 0,
  uid: 0,
  gid: 0,
  size: 0,
  modifiedMs: 0,
  changedMs: 0,
  isDirectory: false,
  isFresh: false,
};

/** The memory of a file that is seen for the first time or again. */
export function toSeen(stats: Stats): Seen {
  return {
    dev: stats.dev,
    ino: stats.ino,
    birthMs: stats.birthtimeMs,
    mode: stats.mode,
    uid: stats.uid,
    gid: stats.gid,
    size: stats.size,
    modifiedMs: stats.mtimeMs,
    changedMs: stats.ctimeMs,
    isDirectory: stats.isDirectory(),
    isFresh: false,
  };
}

/** A file that appeared just now. */
export function toNewcomer(seen: Seen): Seen {
  return { ...seen, isFresh: !seen.isDirectory && seen.size > 0 };
}

/** Whether two memories are of one and the same object. */
export function isSameObject(left: Seen, right: Seen): boolean {
  return left.dev === right.dev && left.ino === right.ino && left.birthMs === right.birthMs;
}

/** Whether a file has other content than was known; of folders the news of their entries tell. */
export function isRewritten(known: Seen, now: Seen): boolean {
  if (now.isDirectory) return false;
  return known.size !== now.size || known.modifiedMs !== now.modifiedMs;
}

/**
 * The meaning of `rename`. `isRepeated` says that the same name has more of them waiting, so that
 * what is there now may be the work of a later one.
 */
export function inferRename(
  known: Seen | undefined,
  now: Seen | undefined,
  isRepeated: boolean,
): Inference {
  if (known === undefined) {
    if (now !== undefined) return { events: [EventType.CREATE], seen: toNewcomer(now) };
    return isRepeated
      ? { events: [EventType.CREATE], seen: GHOST }
      : { events: [], seen: undefined };
  }
  if (now === undefined) return { events: [EventType.REMOVE], seen: undefined };
  if (isSameObject(known, now)) return { events: [], seen: known };
  if (isRepeated) return { events: [EventType.REMOVE], seen: undefined };
  return { events: [EventType.CREATE], seen: toNewcomer(now) };
}

/**
 * A change with nothing to show for it is still a write if the file was written this recently: its
 * content may have been looked at between two writes of one clock tick.
 */
const RECENT_WRITE_MS = 100;

/** The meaning of `change` at the time `nowMs`. */
export function inferChange(
  known: Seen | undefined,
  now: Seen | undefined,
  nowMs: number,
): Inference {
  if (now === undefined) return { events: [], seen: known };
  if (known === undefined) return { events: [EventType.CREATE], seen: toNewcomer(now) };
  if (known === GHOST) return { events: [], seen: known };
  if (now.isDirectory) return { events: [EventType.CHMOD], seen: now };
  const isWritten = known.isFresh || isRewritten(known, now);
  const hasNewOwner = known.mode !== now.mode || known.uid !== now.uid || known.gid !== now.gid;
  const isTouched = hasNewOwner || (!isWritten && known.changedMs !== now.changedMs);
  const isRecent = !isTouched && nowMs - now.modifiedMs < RECENT_WRITE_MS;
  const events: EventType[] = [];
  if (isTouched) events.push(EventType.CHMOD);
  if (isWritten || isRecent) events.push(EventType.WRITE);
  return { events, seen: now };
}
