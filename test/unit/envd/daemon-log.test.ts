/** Log lines that wait for the host. */

import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createDaemonLog } from "../../../src/envd/log.ts";

const NEVER = new AbortController().signal;

test("a line is one JSON object with its fields, long texts cut", async () => {
  const log = createDaemonLog();
  log.write("info", "File\nread", { path: "x".repeat(5_000), size: 3 });
  const { text, last } = await log.after(0, NEVER);
  expect([text.split("\n").length, last]).toEqual([2, 1]);
  expect(text.startsWith("1 {")).toBe(true);
  expect(JSON.parse(text.slice(2))).toEqual({
    level: "info",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    message: "File\nread",
    path: `${"x".repeat(1024)}…`,
    size: 3,
  });
});

test("a reader waits for the first line, and stops with its signal", async () => {
  const log = createDaemonLog();
  const waiting = log.after(0, NEVER);
  log.write("debug", "now", {});
  expect((await waiting).text).toContain('"message":"now"');
  const controller = new AbortController();
  const canceled = log.after(1, controller.signal);
  controller.abort();
  await expect(canceled).rejects.toThrow("aborted");
});

test("lines stay when they were read, and a reader goes on where it was", async () => {
  const log = createDaemonLog();
  for (const message of ["one", "two", "three"]) log.write("info", message, {});
  const { text, last } = await log.after(1, NEVER);
  expect(text.split("\n").map((line) => /^(\d+) .*"message":"(\w+)"/.exec(line)?.slice(1))).toEqual(
    [["2", "two"], ["3", "three"], undefined],
  );
  expect([last, await log.after(1, NEVER)]).toEqual([3, { text, last, isBehind: false }]);
});

test("the oldest lines go first, and the numbers show it", async () => {
  const log = createDaemonLog();
  for (let count = 1; count <= 2_000; count += 1) {
    log.write("info", `line ${count}`, { padding: "x".repeat(1_000) });
  }
  const numbers: number[] = [];
  for (let last = 0; last < 2_000;) {
    const lines = await log.after(last, NEVER);
    for (const [, number, said] of lines.text.matchAll(/^(\d+) .*"message":"line (\d+)"/gm)) {
      expect(said).toBe(number);
      numbers.push(Number(number));
    }
    ({ last } = lines);
  }
  const [oldest = 0] = numbers;
  expect(numbers).toEqual(Array.from({ length: 2_001 - oldest }, (_, index) => oldest + index));
  expect([oldest > 800, oldest < 1_200]).toEqual([true, true]);
});

test("a reader that waits again and again leaves nothing at its signal", async () => {
  const log = createDaemonLog();
  const { signal } = new AbortController();
  for (let last = 0; last < 100; last += 1) {
    const waiting = log.after(last, signal);
    log.write("info", "line", {});
    await waiting;
  }
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("what is forgotten was never there", async () => {
  const log = createDaemonLog();
  log.write("info", "before", {});
  log.forget();
  expect(log.kept()).toBe("");
  log.write("info", "first", {});
  expect((await log.after(0, NEVER)).text).toMatch(/^1 .*"message":"first"/);
});
