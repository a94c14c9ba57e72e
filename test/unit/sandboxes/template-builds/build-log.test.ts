/** What steps write becomes lines of a bounded length. */

import { expect, test } from "vitest";
import { createSystemClock } from "../../../../src/common/clock.ts";
import { createBuildLog } from "../../../../src/sandboxes/template-builds/build-log.ts";

function openLog() {
  const messages: string[] = [];
  /** How many lines each write to the database has. */
  const writes: number[] = [];
  const store = {
    buildLines: {
      append(_id: string, lines: readonly { readonly message: string }[]) {
        messages.push(...lines.map(({ message }) => message));
        writes.push(lines.length);
      },
      read: () => [],
      remove: () => undefined,
      buildIds: () => [],
    },
  };
  return { messages, writes, log: createBuildLog({ store, clock: createSystemClock() }, "build") };
}

test("a line that does not end is held only as far as it is shown", () => {
  const { messages, log } = openLog();
  const sink = log.open("1");
  const piece = Buffer.alloc(2_000, "x");
  // Together more than the longest text that there can be.
  for (let count = 0; count < 270_000; count += 1) sink.write("stdout", piece);
  sink.write("stdout", Buffer.from("\nnext\n"));
  sink.end();
  expect(messages).toEqual(["x".repeat(2_000), "next"]);
});

test("the lines of one piece of output are one write", () => {
  const { messages, writes, log } = openLog();
  log.note("1", "begins");
  const sink = log.open("1");
  sink.write("stdout", Buffer.from("a\nb\nc"));
  sink.write("stderr", Buffer.from("no line yet"));
  sink.end();
  log.note("1", "ends");
  expect(messages).toEqual(["begins", "a", "b", "c", "no line yet", "ends"]);
  expect(writes).toEqual([1, 2, 2, 1]);
});

test("what is beyond the bound of a build is one line, after those before it", () => {
  const { messages, writes, log } = openLog();
  const sink = log.open("1");
  sink.write("stdout", Buffer.from("a\n".repeat(30_000)));
  sink.end();
  expect(writes).toEqual([20_002]);
  expect(messages.at(-1)).toMatch(/too long/);
});

test("of a build that fails beyond the bound, the last lines of its step say why", () => {
  const { messages, log } = openLog();
  for (const step of ["1", "2"]) {
    const sink = log.open(step);
    sink.write("stdout", Buffer.from(`of ${step}\n`.repeat(30_000)));
    sink.write("stderr", Buffer.from("no such file\n"));
    sink.end();
  }
  log.note("2", "failed", "error");
  const rest = messages.slice(20_002);
  expect(rest).toEqual([...Array.from({ length: 49 }, () => "of 2"), "no such file", "failed"]);
  log.note("2", "failed again", "error");
  expect(messages.slice(20_002).length).toBe(52);
});
