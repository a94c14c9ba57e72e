/** Records of a sandbox's log as bodies of the wire. */

import { setImmediate } from "node:timers/promises";
import { toRecordLevel } from "../common/log-level.ts";
import type { LogRecord } from "../sandboxes/logs/log-book.ts";
import type { LogsBody } from "../wire/control.ts";
import { toTime } from "./reply.ts";

/** Records that are taken apart in one turn of the event loop, which takes milliseconds. */
const RECORDS_PER_TURN = 500;

/** The same records twice: raw, and taken apart. */
export async function toLogsBody(lines: readonly LogRecord[]): Promise<LogsBody> {
  return {
    logs: lines.map(({ atMs, line }) => ({ timestamp: toTime(atMs), line })),
    logEntries: await toLogEntries(lines),
  };
}

/** Records taken apart; other calls go on meanwhile. */
export async function toLogEntries(lines: readonly LogRecord[]): Promise<LogsBody["logEntries"]> {
  const entries: LogsBody["logEntries"] = [];
  for (const { atMs, line } of lines) {
    if (entries.length > 0 && entries.length % RECORDS_PER_TURN === 0) await setImmediate();
    entries.push(toLogEntry(atMs, line));
  }
  return entries;
}

/** Top-level scalars of the raw record become the fields, as text. */
function toLogEntry(atMs: number, line: string): LogsBody["logEntries"][number] {
  // The store holds what the log book made: one JSON object per line.
  const { message, level, ...rest }: Record<string, unknown> = JSON.parse(line);
  const fields: Record<string, string> = {};
  for (const [name, value] of Object.entries(rest)) {
    if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
      fields[name] = String(value);
    }
  }
  return {
    timestamp: toTime(atMs),
    message: typeof message === "string" ? message : "",
    level: toRecordLevel(level),
    fields,
  };
}
