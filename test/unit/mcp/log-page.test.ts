/** Pages of log records: no record between two pages, and what is cut is told. */

import { expect, test } from "vitest";
import { pageOfLogs, type LogEntryBody } from "../../../src/mcp/logs/log-page.ts";
import type { LogsBody } from "../../../src/wire/control.ts";

const STEPS = 300;

function entryAt(ms: number, message = ""): LogEntryBody {
  return { timestamp: new Date(ms).toISOString(), message, level: "info", fields: {} };
}

function bodyOf(logEntries: LogEntryBody[], lineBytes = 10): LogsBody {
  const logs = logEntries.map(({ timestamp }) => ({ timestamp, line: "x".repeat(lineBytes) }));
  return { logs, logEntries };
}

/** A service that cuts its replies by count, and by bytes without a word. */
function answer(all: readonly LogEntryBody[], startMs: number, limit: number): LogsBody {
  const lineBytes = 500_000;
  const found = all.filter(({ timestamp }) => Date.parse(timestamp) >= startMs);
  return bodyOf(found.slice(0, Math.min(limit, 8)), lineBytes);
}

test.for([1, 2, 3, 5, 100])("pages of %i have every record once, or tell of the cut", (limit) => {
  const times = [1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12, 13, 14, 15, 15];
  const all = times.map((ms, index) => entryAt(ms, String(index)));
  const seen: string[] = [];
  const cuts = new Set<number>();
  let startMs = 0;
  let step = 0;
  for (; step < STEPS; step += 1) {
    const page = pageOfLogs(answer(all, startMs, limit), limit);
    seen.push(...page.entries.map(({ message }) => message));
    if (page.cutMs !== undefined) cuts.add(page.cutMs);
    if (page.nextMs === undefined) break;
    expect(page.nextMs).toBeGreaterThan(startMs);
    startMs = page.nextMs;
    if (!page.isFull) break;
  }
  expect(step).toBeLessThan(STEPS);
  expect(seen).toEqual([...new Set(seen)]);
  const missing = all.filter(({ message }) => !seen.includes(message));
  expect(missing.filter(({ timestamp }) => !cuts.has(Date.parse(timestamp)))).toEqual([]);
});

test("more records of one millisecond than the limit are told", () => {
  const page = pageOfLogs(bodyOf([entryAt(5), entryAt(5)]), 2);
  expect(page).toMatchObject({ isFull: true, nextMs: 6, cutMs: 5 });
});

test("a reply that a service may have cut by its size is not called whole", () => {
  const page = pageOfLogs(bodyOf([entryAt(5), entryAt(6), entryAt(6)], 500_000), 100);
  expect(page).toMatchObject({ isFull: true, nextMs: 6, cutMs: undefined });
  expect(page.entries).toHaveLength(1);
});

test("records out of order do not lead back", () => {
  const page = pageOfLogs(bodyOf([entryAt(9), entryAt(7), entryAt(8)]), 3);
  expect(page.nextMs).toBe(9);
});

test.for([
  { name: "no record", entries: [] },
  { name: "a time that is none", entries: [{ ...entryAt(1), timestamp: "yesterday" }] },
])("$name has no next page", ({ entries }) => {
  expect(pageOfLogs(bodyOf(entries), 100).nextMs).toBeUndefined();
});
