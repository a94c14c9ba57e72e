/** The levels of the records that a service keeps of a sandbox, the lowest first. */

export const RECORD_LEVELS = ["debug", "info", "warn", "error"] as const;

export type RecordLevel = (typeof RECORD_LEVELS)[number];

/** What is not a level counts as `info`. */
export function toRecordLevel(level: unknown): RecordLevel {
  return RECORD_LEVELS.find((known) => known === level) ?? "info";
}
