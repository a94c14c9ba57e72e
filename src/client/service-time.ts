/** The time of a service on another machine, whose clock may differ from ours by hours. */

import type { Clock } from "../common/clock.ts";

export interface ServiceTime {
  /** Milliseconds since the Unix epoch by the clock of the service, as far as its replies tell it. */
  now(): number;
  /**
   * Learns from a reply.
   * @param date its header of this name.
   * @param sentAtMs when its request was sent, by the clock of durations.
   */
  observe(date: unknown, sentAtMs: number): void;
}

/** Dates of replies have whole seconds: a smaller difference is none. */
const MIN_DIFFERENCE_MS = 5_000;
/** Between the beginning and the end of the second that a date names. */
const HALF_SECOND_MS = 500;
/** The date of a slow reply can be that of its beginning or of its end. */
const MAX_REPLY_MS = 5_000;

/** The time of a service on this machine. */
export function sameTime(clock: Pick<Clock, "now">): ServiceTime {
  return { now: () => clock.now(), observe: () => undefined };
}

/** Our own time, until a reply is dated otherwise. */
export function createServiceTime(clock: Pick<Clock, "now" | "elapsed">): ServiceTime {
  let differenceMs = 0;
  return {
    now: () => clock.now() + differenceMs,
    observe(date, sentAtMs) {
      const atMs = parseHttpDate(date);
      if (atMs === undefined || clock.elapsed() - sentAtMs > MAX_REPLY_MS) return;
      const foundMs = atMs + HALF_SECOND_MS - clock.now();
      differenceMs = Math.abs(foundMs) < MIN_DIFFERENCE_MS ? 0 : foundMs;
    },
  };
}

/** The one form of dates that HTTP still sends, such as `Sun, 06 Nov 1994 08:49:37 GMT`. */
const DATE_PATTERN = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Unix milliseconds of the date in a header; undefined for anything else. */
export function parseHttpDate(value: unknown): number | undefined {
  if (typeof value !== "string" || !DATE_PATTERN.test(value)) return undefined;
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? undefined : atMs;
}
