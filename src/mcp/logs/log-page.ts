/** One page of a service's log records. Pages begin at a millisecond: the wire has no other cursor. */

import type { LogsBody } from "../../wire/control.ts";

export type LogEntryBody = LogsBody["logEntries"][number];

/** A service cuts a reply by its size, too, and does not say so; ours does at 4 MiB. */
const MAX_WHOLE_BYTES = 1_000_000;

export interface LogPage {
  readonly entries: readonly LogEntryBody[];
  /** Whether the service may have more. */
  readonly isFull: boolean;
  /** Where the next page begins, in Unix milliseconds. */
  readonly nextMs: number | undefined;
  /** The millisecond of which records beyond this page are not in the next one. */
  readonly cutMs: number | undefined;
}

/**
 * The records of one call. Where a full page ends within a millisecond, the records of that
 * millisecond are left to the next page; a page of one millisecond cannot do so.
 */
export function pageOfLogs({ logs, logEntries }: LogsBody, limit: number): LogPage {
  const bytes = logs.reduce((sum, { line }) => sum + line.length, 0);
  const isFull = logEntries.length >= limit || bytes >= MAX_WHOLE_BYTES;
  const all = logEntries.toSorted((left, right) => timeOf(left) - timeOf(right) || 0);
  const last = all.at(-1);
  const lastMs = last === undefined ? Number.NaN : timeOf(last);
  if (Number.isNaN(lastMs)) {
    return { entries: all, isFull: isFull && all.length > 0, nextMs: undefined, cutMs: undefined };
  }
  const earlier = all.filter((entry) => timeOf(entry) !== lastMs);
  if (isFull && earlier.length > 0) {
    return { entries: earlier, isFull, nextMs: lastMs, cutMs: undefined };
  }
  return { entries: all, isFull, nextMs: lastMs + 1, cutMs: isFull ? lastMs : undefined };
}

/** The place of a record among those of its millisecond on a page, from 1. */
export function rankOf(entry: LogEntryBody, entries: readonly LogEntryBody[]): number {
  const sameMs = entries.filter((other) => timeOf(other) === timeOf(entry));
  return sameMs.indexOf(entry) + 1;
}

/** In Unix milliseconds. */
export function timeOf(entry: LogEntryBody): number {
  return Date.parse(entry.timestamp);
}
