/** Lines of the logs of sandboxes, and the table that keeps them. */

import type { RecordLevel } from "../common/log-level.ts";

export interface LogLine {
  readonly atMs: number;
  /** One JSON object. */
  readonly line: string;
}

export interface LogFilter {
  readonly sandboxId: string;
  /** Inclusive, as is the end. */
  readonly startMs: number;
  readonly endMs: number;
  readonly limit: number;
  /** Oldest or newest first. */
  readonly direction: "forward" | "backward";
  /** The lowest that counts; a line without a known level is `info`. */
  readonly level: RecordLevel;
  /** A part of the message, case counts; empty for any. */
  readonly search: string;
}

/** Whose log it is. */
export interface LogOwner {
  readonly sandboxId: string;
  readonly team: string;
}

/** The line that stands for those that had to go, the newest of them at a moment. */
export type LogMark = (atMs: number) => string;

export interface LogExtras {
  readonly toMark?: LogMark;
  /** Kept with the lines, all or nothing. */
  readonly cursor?: string | undefined;
}

export interface ForgetExtras {
  /** With a line from the first moment to this one it is not old: a clock that was behind has rebased it. */
  readonly latestMs?: number;
  /** One that is there loses its lines alone: without its cursor its daemon would send them again. */
  readonly isThere?: (sandboxId: string) => boolean;
}

/** Where a page of lines ended. */
export interface LogPlace {
  readonly atMs: number;
  readonly lineId: number;
}

export interface LogPage {
  /** Those of the page that count, at most as many as the limit. */
  readonly lines: LogLine[];
  /** Undefined at the end of the log. */
  readonly place: LogPlace | undefined;
}

export interface LogTable {
  /** Adds lines in order; beyond the bounds of one sandbox its oldest lines go, for a mark. */
  append(owner: LogOwner, lines: readonly LogLine[], more?: LogExtras): void;
  /** Where the lines came from that were appended last; empty when that was never said. */
  cursor(sandboxId: string): string;
  /** The next page behind a place: so few lines are looked at that a full log needs many pages. */
  read(filter: LogFilter, behind?: LogPlace): LogPage;
  /** Whether anything was ever written about it, as this team's, and has not been forgotten. */
  has(owner: LogOwner): boolean;
  /** What was last written to after the first moment, by a clock that was ahead, counts from the second. */
  rebase(latestMs: number, nowMs: number): void;
  /**
   * Forgets every sandbox whose last line is older; of lines so many at a time. Returns whether some are
   * left.
   */
  forgetBefore(atMs: number, mostLines: number, more?: ForgetExtras): boolean;
  /** The sandboxes with lines beyond so many bytes of their team; what was written to last counts first. */
  listBeyond(mostBytes: number): string[];
  /** Erases so many lines of a sandbox, which stays known. Returns whether some may be left. */
  empty(sandboxId: string, mostLines: number): boolean;
}
