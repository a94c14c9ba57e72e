/** The log of a Pod: lines of a daemon that root inside may have replaced. */

import { expect, test } from "vitest";
import { selectLines, toLogLines } from "../../../src/cluster/pods/pod-log.ts";

const STARTED_MS = Date.parse("2026-01-01T00:00:00Z");
const facts = {
  subject: { sandboxId: "ia", team: "local", templateId: "base" },
  startedAtMs: STARTED_MS,
  nowMs: STARTED_MS + 10_000,
};
const FILTER = {
  sandboxId: "ia",
  startMs: 0,
  endMs: Number.MAX_SAFE_INTEGER,
  limit: 100,
  direction: "forward",
  level: "debug",
  search: "",
} as const;

function line(number: number, message: string, more: object = {}): string {
  const timestamp = new Date(STARTED_MS + number * 1_000).toISOString();
  return `${number} ${JSON.stringify({ level: "info", timestamp, message, ...more })}\n`;
}

const read = (text: string, filter: object = {}) =>
  selectLines(toLogLines(text, facts), { ...FILTER, ...filter }).map(({ atMs, line: found }) => ({
    atMs: atMs - STARTED_MS,
    ...JSON.parse(found),
  }));

const messages = (text: string, filter: object = {}) =>
  read(text, filter).map(({ message }) => message);

test("lines follow that of the start, with what the service says about them", () => {
  const [start, first] = read(line(1, "one", { sandboxID: "ib", service: "other", pid: 7 }));
  expect(start).toMatchObject({ atMs: 0, message: "Sandbox created", service: "sandbox-mcp" });
  expect(first).toMatchObject({
    atMs: 1_000,
    message: "one",
    service: "envd",
    sandboxID: "ia",
    templateID: "base",
    pid: 7,
  });
});

test("level, text, times, order and number select as in the store", () => {
  const text = line(1, "one") + line(2, "two", { level: "error" }) + line(3, "three");
  expect(messages(text, { level: "warn" })).toEqual(["two"]);
  expect(messages(text, { search: "thr" })).toEqual(["three"]);
  expect(messages(text, { startMs: STARTED_MS + 2_000 })).toEqual(["two", "three"]);
  expect(messages(text, { endMs: STARTED_MS + 1_000 })).toEqual(["Sandbox created", "one"]);
  expect(messages(text, { direction: "backward", limit: 2 })).toEqual(["three", "two"]);
});

test("lines that are gone, and what is no log line, leave a mark", () => {
  const text = `${line(5, "five")}6 no line\n7 []\n8 {"level":"loud","message":1}\n`;
  const dropped = "a line that is no log line was dropped";
  expect(messages(text)).toEqual([
    "Sandbox created",
    "older log lines dropped",
    "five",
    dropped,
    dropped,
    dropped,
  ]);
  expect(read(text)[1]).toMatchObject({ lost: 4, level: "warn" });
});

test("times that cannot be never order lines", () => {
  const times = ["2099-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "never"];
  const text = line(1, "one") + times.map((timestamp) => line(2, "x", { timestamp })).join("");
  expect(read(text).map(({ atMs }) => atMs)).toEqual([0, 1_000, 1_000, 1_000, 1_000]);
});

test("of too many lines the newest are read, and of too many bytes the first", () => {
  const many = Array.from({ length: 30_000 }, (_, index) => line(index + 1, "x")).join("");
  const [, mark] = read(many);
  expect(mark).toMatchObject({ message: "older log lines dropped", lost: 10_000 });
  const long = Array.from({ length: 8 }, (_, index) => line(index + 1, "x".repeat(900_000)));
  expect(read(long.join(""))).toHaveLength(5);
});
