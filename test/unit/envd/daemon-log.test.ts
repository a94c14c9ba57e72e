/** Log lines that wait for the host. */

import { expect, test } from "vitest";
import { createDaemonLog } from "../../../src/envd/log.ts";

const NEVER = new AbortController().signal;

test("a line is one JSON object with its fields, long texts cut", async () => {
  const log = createDaemonLog();
  log.write("info", "File\nread", { path: "x".repeat(5_000), size: 3 });
  const text = await log.take(NEVER);
  expect(text.split("\n")).toHaveLength(2);
  expect(JSON.parse(text)).toEqual({
    level: "info",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    message: "File\nread",
    path: `${"x".repeat(1024)}…`,
    size: 3,
  });
});

test("a reader waits for the first line, and stops with its signal", async () => {
  const log = createDaemonLog();
  const waiting = log.take(NEVER);
  log.write("debug", "now", {});
  expect(JSON.parse(await waiting)).toMatchObject({ message: "now" });
  const controller = new AbortController();
  const canceled = log.take(controller.signal);
  controller.abort();
  await expect(canceled).rejects.toThrow("aborted");
});

test("the oldest lines are dropped first, and that is told", async () => {
  const log = createDaemonLog();
  for (let count = 0; count < 2_000; count += 1) {
    log.write("info", `line ${count}`, { padding: "x".repeat(1_000) });
  }
  let text = "";
  while (!text.includes('"line 1999"')) text += await log.take(NEVER);
  const lines = text
    .trim()
    .split("\n")
    .map((line): { message: string; dropped?: number } => JSON.parse(line));
  const [mark, oldest] = lines;
  expect(mark).toMatchObject({ message: "log lines dropped", dropped: 2_000 - lines.length + 1 });
  expect(oldest?.message).toBe(`line ${mark?.dropped}`);
});
