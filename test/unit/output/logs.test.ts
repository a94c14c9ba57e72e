/** The log of a sandbox: voices in order, changes told at a limited rate, kept for a while. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { SandboxLogs, logUri } from "../../../src/output/logs.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { withoutMark } from "../../support/marks.ts";

const HOUR_MS = 3_600_000;
const MAX_LOGS = 128;

function startLogs() {
  const clock = createFakeClock();
  const log = createSilentLog();
  const spools = startSpools({ root: undefined, clock, log });
  const logs = new SandboxLogs({ clock, spools, log });
  const told: string[] = [];
  logs.observe({
    // Of a process alone the same is told.
    updated: (uri) => void (uri.includes("/process/") || told.push(uri)),
    listChanged: () => void told.push("list"),
  });
  const out = (text: string, processId = "p_1") =>
    logs.output("i1", processId, { stream: "stdout", bytes: Buffer.from(text) });
  return { clock, logs, told, out };
}

test("the log names who speaks whenever that changes", async () => {
  const { logs, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  logs.note("i1", "p_1", "started: echo hi");
  out("hi\n");
  out("there");
  out("other\n", "p_2");
  logs.note("i1", "p_1", "ended: exit_code 0");
  expect(withoutMark((await logs.read("i1")) ?? "")).toBe(
    [
      "--- log",
      "--- p_1 started: echo hi",
      "--- p_1 stdout",
      "hi",
      "there",
      "--- p_2 stdout",
      "other",
      "--- p_1 ended: exit_code 0",
      "--- end",
      "",
    ].join("\n"),
  );
});

test("changes are told at once and then once a second", async () => {
  const { clock, logs, told, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  await clock.advance(0);
  out("a");
  await clock.advance(0);
  for (let index = 0; index < 5; index += 1) {
    out("b");
    await clock.advance(300);
  }
  await clock.advance(5_000);
  expect(told).toEqual(["list", logUri("i1"), logUri("i1"), logUri("i1")]);
});

test("a wall clock that is set back delays no change", async () => {
  const { clock, logs, told, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  out("a");
  await clock.advance(0);
  clock.set(clock.now() - HOUR_MS);
  out("b");
  await clock.advance(1_000);
  expect(told).toEqual(["list", logUri("i1"), logUri("i1")]);
});

test("a log that is used stays listed among many, even if the clock was set back", async () => {
  const { clock, logs } = startLogs();
  await using _ = logs;
  for (let index = 0; index < MAX_LOGS; index += 1) {
    logs.open(`old${index}`);
    await clock.advance(1);
  }
  clock.set(clock.now() - HOUR_MS);
  for (const sandboxId of ["new1", "new2", "new3"]) {
    logs.open(sandboxId);
    await clock.advance(1);
  }
  const listed = logs.list().map(({ sandboxId }) => sandboxId);
  expect(listed.slice(0, 3)).toEqual(["new3", "new2", "new1"]);
  expect(listed.at(-1)).toBe("old3");
});

test("changes of the list come together", async () => {
  const { clock, logs, told } = startLogs();
  await using _ = logs;
  logs.open("i1");
  await clock.advance(0);
  logs.open("i2");
  logs.open("i3");
  logs.close("i1");
  await clock.advance(500);
  expect(told).toEqual(["list", "list"]);
});

test("the log of an ended sandbox is not listed but readable for 15 minutes", async () => {
  const { clock, logs, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  out("x\n");
  logs.close("i1");
  expect(logs.list()).toEqual([]);
  await clock.advance(14 * 60_000);
  expect(await logs.read("i1")).toContain("x");
  await clock.advance(2 * 60_000);
  expect(await logs.read("i1")).toBeUndefined();
});

test("it is readable for as long where the wall clock jumps, as after a machine was suspended", async () => {
  const { clock, logs, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  out("x\n");
  logs.close("i1");
  clock.set(clock.now() + HOUR_MS);
  await clock.advance(14 * 60_000);
  expect(await logs.read("i1")).toContain("x");
  clock.set(clock.now() - 2 * HOUR_MS);
  await clock.advance(2 * 60_000);
  expect(await logs.read("i1")).toBeUndefined();
});

test("a long log is read from its newest part, and says so", async () => {
  const { logs, out } = startLogs();
  await using _ = logs;
  logs.open("i1");
  for (let index = 0; index < 50_000; index += 1) out(`line ${index}\n`);
  const text = (await logs.read("i1")) ?? "";
  expect(text.length).toBeLessThan(101_000);
  expect(text.split("\n")[1]).toMatch(/^--- \[… .* of older output omitted/);
  expect(text.split("\n")[2]).toMatch(/^line [0-9]+$/);
  expect(text).toMatch(/\nline 49999\n--- end \S+\n$/);
});

test("nobody is told after the end", async () => {
  const { clock, logs, told, out } = startLogs();
  logs.open("i1");
  out("x");
  await logs[Symbol.asyncDispose]();
  await clock.advance(10_000);
  expect(told).toEqual([]);
});

test("an unknown sandbox has no log", async () => {
  const { logs } = startLogs();
  await using _ = logs;
  expect(await logs.read("i9")).toBeUndefined();
});

test("bytes of a character that never came whole stand before the end of their process", async () => {
  const { logs } = startLogs();
  await using _ = logs;
  logs.open("i1");
  const bytes = Buffer.from("aé");
  logs.output("i1", "p_1", { stream: "stdout", bytes: bytes.subarray(0, 2) });
  logs.note("i1", "p_1", "ended: exit_code 0");
  expect(withoutMark((await logs.read("i1")) ?? "")).toBe(
    "--- log\n--- p_1 stdout\na\uFFFD\n--- p_1 ended: exit_code 0\n--- end\n",
  );
});

test("a stream that was taken up again does not complete a character of the broken one", async () => {
  const { logs } = startLogs();
  await using _ = logs;
  logs.open("i1");
  logs.output("i1", "p_1", { stream: "stdout", bytes: Buffer.of(0xc3) });
  logs.note("i1", "p_1", "watched again");
  logs.output("i1", "p_1", { stream: "stdout", bytes: Buffer.of(0xa9) });
  expect(await logs.read("i1")).not.toContain("é");
});
