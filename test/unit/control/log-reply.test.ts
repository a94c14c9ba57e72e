import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { toLogsBody } from "../../../src/control/log-reply.ts";

function linesOf(count: number) {
  return Array.from({ length: count }, (_, index) => ({
    atMs: index,
    line: JSON.stringify({ message: `line ${index}`, level: "info", service: "envd", pid: 1 }),
  }));
}

test("other work goes on while many records become a reply", async () => {
  const work = { isOver: false, turns: 0 };
  const reply = toLogsBody(linesOf(10_000)).finally(() => (work.isOver = true));
  while (!work.isOver) {
    await setImmediate();
    work.turns += 1;
  }
  const { logs, logEntries } = await reply;
  expect(work.turns).toBeGreaterThan(10);
  expect([logs.length, logEntries.length]).toEqual([10_000, 10_000]);
  expect(logEntries.at(-1)).toEqual({
    timestamp: "1970-01-01T00:00:09.999Z",
    message: "line 9999",
    level: "info",
    fields: { service: "envd", pid: "1" },
  });
});
