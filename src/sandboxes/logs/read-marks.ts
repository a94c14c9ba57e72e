/**
 * How far the logs of sandboxes were read. Readers page by time, and a daemon's line comes after it was
 * written: what comes after a read stands behind the lines of that read, or the next page would skip it.
 */

export interface ReadMarks {
  /** A reader has looked at every line up to this time, oldest first. */
  read(sandboxId: string, lastMs: number): void;
  /** The time under which a line is kept: its own, or the next one behind what was read. */
  place(sandboxId: string, atMs: number): number;
}

/** The log that was read least recently is forgotten beyond it. */
const MAX_MARKS = 1_024;
/** A line that is older still is no late one: the clock was set back, and times stay true. */
const MAX_SHIFT_MS = 60_000;

export function createReadMarks(): ReadMarks {
  const marks = new Map<string, number>();
  return {
    read(sandboxId, lastMs) {
      const mark = Math.max(lastMs, marks.get(sandboxId) ?? 0);
      marks.delete(sandboxId);
      marks.set(sandboxId, mark);
      const [oldest] = marks.keys();
      if (marks.size > MAX_MARKS && oldest !== undefined) marks.delete(oldest);
    },
    place(sandboxId, atMs) {
      const mark = marks.get(sandboxId);
      const isLate = mark !== undefined && atMs <= mark && atMs > mark - MAX_SHIFT_MS;
      return isLate ? mark + 1 : atMs;
    },
  };
}
