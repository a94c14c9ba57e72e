/** A watcher in a sandbox, and its fetched but undelivered events. */

import type { Sandbox } from "../../client/envd.ts";
import type { WatchEvent } from "../../client/filesystem.ts";

export interface Watcher {
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly held: WatchEvent[];
  /** Whether undelivered events were dropped, or fetched ones may not have arrived, or not here. */
  hasLost: boolean;
  /** Whether the directory itself was moved or removed, after which the daemon reports nothing. */
  isOver: boolean;
  /** Whether the daemon has no such watcher any more; events may be held all the same. */
  isEnded: boolean;
  /** Whether the daemon is known to have this watcher. */
  isKnown: boolean;
  /** Held events are for one call at a time. */
  isInUse: boolean;
  /** The fetch under way, which a call that is cancelled leaves to the next one. */
  fetching: Promise<void> | undefined;
  /** By the clock of durations. */
  usedAtMs: number;
}

const MAX_HELD_EVENTS = 10_000;
/** Twice what our daemon gives away at once; one that was replaced fills its replies with names. */
const MAX_HELD_CHARACTERS = 4 * 1024 * 1024;
/** So many events fill a reply: no more are fetched until they are delivered. */
export const MAX_REPLY_EVENTS = 500;

/** A watcher that was made, or may exist. */
export function newWatcher(
  start: Pick<Watcher, "id" | "sandbox" | "isKnown" | "usedAtMs">,
): Watcher {
  // What another server has fetched and not told is with that one.
  const state = { hasLost: !start.isKnown, isOver: false, isEnded: false, isInUse: false };
  return { ...start, ...state, held: [], fetching: undefined };
}

const ENDS: ReadonlySet<WatchEvent["type"]> = new Set(["rename", "remove"]);

/** Keeps fetched events until they are told. */
export function holdEvents(
  watcher: Pick<Watcher, "held" | "hasLost" | "isOver">,
  events: readonly WatchEvent[],
): void {
  // A reply may have more than a call can have arguments.
  for (const event of events) watcher.held.push(event);
  watcher.isOver ||= events.some(({ name, type }) => name === "." && ENDS.has(type));
  const surplus = watcher.held.length - countKept(watcher.held);
  if (surplus === 0) return;
  watcher.held.splice(0, surplus);
  watcher.hasLost = true;
}

/** How many of the newest are within both limits. */
function countKept(held: readonly WatchEvent[]): number {
  let characters = 0;
  const isOver = ({ name }: WatchEvent) => (characters += name.length) > MAX_HELD_CHARACTERS;
  const last = held.findLastIndex(isOver);
  return Math.min(MAX_HELD_EVENTS, held.length - 1 - last);
}
