/** The log of a sandbox that is a Pod: the lines that its daemon keeps, which root inside may have written. */

import { RECORD_LEVELS, toRecordLevel } from "../../common/log-level.ts";
import { LINE_PATTERN } from "../../sandboxes/logs/follow-daemon.ts";
import type { LogSubject } from "../../sandboxes/logs/log-batch.ts";
import { toLine } from "../../sandboxes/logs/log-batch.ts";
import { MAX_READ_LINES, parseLine, withinBytes } from "../../sandboxes/logs/log-book.ts";
import type { LogFilter, LogLine } from "../../store/log-records.ts";

/** Far more than a daemon keeps; of more the newest ones are read. */
const MAX_LINES = 20_000;
/** How far the clock of a node may be from ours. */
const CLOCK_TOLERANCE_MS = 60_000;

export interface PodLogFacts {
  readonly subject: LogSubject;
  readonly startedAtMs: number;
  readonly nowMs: number;
}

interface ReadLine extends LogLine {
  readonly level: string;
  readonly message: string;
}

/** In the order of the daemon, after the line of the service about the start. */
export function toLogLines(text: string, facts: PodLogFacts): ReadLine[] {
  const { subject, startedAtMs, nowMs } = facts;
  const lines: ReadLine[] = [];
  let atMs = startedAtMs;
  const add = (raw: Readonly<Record<string, unknown>>, service: string) => {
    const level = String(raw["level"]);
    const message = String(raw["message"]);
    lines.push({ ...toLine(raw, { subject, atMs, service }), level, message });
  };
  const mark = (fields: object) =>
    add({ level: "warn", logger: "sandboxes", ...fields }, "sandbox-mcp");
  add({ level: "info", message: "Sandbox created", logger: "sandboxes" }, "sandbox-mcp");
  const numbered = text.split("\n").filter((line) => line !== "");
  const [, first = "1"] = LINE_PATTERN.exec(numbered.at(-MAX_LINES) ?? numbered[0] ?? "") ?? [];
  if (Number(first) > 1) mark({ message: "older log lines dropped", lost: Number(first) - 1 });
  for (const line of numbered.slice(-MAX_LINES)) {
    const [, , rest = line] = LINE_PATTERN.exec(line) ?? [];
    const parsed = parseLine(rest);
    const claimedMs = Date.parse(parsed?.timestamp ?? "");
    const isPlausible = claimedMs >= startedAtMs - CLOCK_TOLERANCE_MS && claimedMs <= nowMs;
    // Times never go back, so that a reader may page by them.
    if (isPlausible) atMs = Math.max(atMs, claimedMs);
    if (parsed === undefined) mark({ message: "a line that is no log line was dropped" });
    else add(parsed, "envd");
  }
  return lines;
}

/** As the store of one machine reads. */
export function selectLines(lines: readonly ReadLine[], filter: LogFilter): LogLine[] {
  const { startMs, endMs, direction, search } = filter;
  const lowest = RECORD_LEVELS.indexOf(filter.level);
  const wanted = lines.filter(
    ({ atMs, level, message }) =>
      atMs >= startMs &&
      atMs <= endMs &&
      RECORD_LEVELS.indexOf(toRecordLevel(level)) >= lowest &&
      message.includes(search),
  );
  const ordered = direction === "forward" ? wanted : wanted.toReversed();
  const limit = Math.min(filter.limit, MAX_READ_LINES);
  return withinBytes(ordered.slice(0, limit).map(({ atMs, line }) => ({ atMs, line })));
}
