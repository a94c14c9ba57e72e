/** Progress notifications of a process: at once, then once a second at most. */

import { expect, test } from "vitest";
import { Progress } from "../../../src/mcp/replies/progress.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function startProgress() {
  const clock = createFakeClock();
  const sent: (readonly [number, string])[] = [];
  const send = async (progress: number, message: string) => void sent.push([progress, message]);
  const { signal } = new AbortController();
  return { clock, sent, progress: new Progress({ send, clock, signal }) };
}

test("the start is told at once, then the output of each second", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.started(7);
  await clock.advance(100);
  progress.output("stdout", Buffer.from("one\ntwo\n"));
  progress.output("stdout", Buffer.from("three\n"));
  await clock.advance(1_000);
  progress.output("stderr", Buffer.from("four\n\n"));
  await clock.advance(1_000);
  expect(sent).toEqual([
    [0, "started pid 7"],
    [14, "output: one\n| two\n| three"],
    [20, "output: four"],
  ]);
});

test("a line that is not finished is told, cleaned, with what it overwrote counted", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.output("stdout", Buffer.from(`\u001b[32m10%\r${"9".repeat(300)}`));
  await clock.advance(2_000);
  expect(sent.map(([, message]) => message)).toEqual([
    `output: [… 3 B of older output omitted …]\n| ${"9".repeat(300)}`,
  ]);
});

test("terminal codes and line ends in two chunks are none of the output", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.output("stdout", Buffer.from("a\r"));
  await clock.advance(1_000);
  progress.output("stdout", Buffer.from("\nb\u001b[3"));
  await clock.advance(1_000);
  progress.output("stdout", Buffer.from("1mc"));
  await clock.advance(1_000);
  expect(sent.map(([, message]) => message)).toEqual(["output: a", "output: \n| b", "output: c"]);
});

test.for([
  { name: "one chunk", chunks: [`${"é".repeat(50_000)}\nend`] },
  { name: "many chunks", chunks: Array.from({ length: 5_000 }, (_, index) => `line ${index}\n`) },
  { name: "characters that are escaped", chunks: ["\u0001\u0002".repeat(1_500), "end"] },
])("of much output in $name the newest 4 KiB are told, marked as cut", async ({ chunks }) => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  for (const chunk of chunks) progress.output("stdout", Buffer.from(chunk));
  await clock.advance(2_000);
  const [[, message] = [0, ""]] = sent;
  expect(sent).toHaveLength(1);
  expect(message).toMatch(
    /^output: \[… [0-9.]+ KB of older output omitted …\]\n\| [^\ufffd]*(end|4999)$/,
  );
  const size = Buffer.byteLength(message, "utf8");
  expect([size <= 4_096, size > 3_800]).toEqual([true, true]);
});

test("blanks that moves of the cursor made take no time", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  // Each line becomes four thousand blanks.
  const line = `\u001b[${"0".repeat(670)}4000C`;
  progress.output("stdout", Buffer.from(`a${`${line}\n`.repeat(6)}b`));
  const before = process.cpuUsage();
  await clock.advance(1_000);
  expect(process.cpuUsage(before).user).toBeLessThan(200_000);
  expect(sent).toHaveLength(1);
});

test("what a busy host could not take comes with the next message", async () => {
  const clock = createFakeClock();
  const sent: string[] = [];
  const busy: (() => void)[] = [];
  const send = (_: number, message: string) => {
    sent.push(message);
    const { promise, resolve } = Promise.withResolvers<void>();
    busy.push(resolve);
    return promise;
  };
  await using progress = new Progress({ send, clock, signal: new AbortController().signal });
  progress.started(7);
  progress.output("stdout", Buffer.from("a\n"));
  await clock.advance(5_000);
  progress.output("stderr", Buffer.from("b\n"));
  busy[0]?.();
  await clock.advance(1_000);
  expect(sent).toEqual(["started pid 7", "output: a\n| b"]);
});

test("a character in two chunks is told whole", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.output("stdout", Buffer.from([0xc3]));
  progress.output("stdout", Buffer.from([0xa9, 0x0a]));
  await clock.advance(2_000);
  expect(sent.map(([, message]) => message)).toEqual(["output: é"]);
});

test("nothing is sent after the end", async () => {
  const { clock, sent, progress } = startProgress();
  progress.started(7);
  progress.output("stdout", Buffer.from("late\n"));
  await progress[Symbol.asyncDispose]();
  await clock.advance(60_000);
  expect(sent).toEqual([[0, "started pid 7"]]);
});

test("a host that is slow misses messages and delays nothing", async () => {
  const clock = createFakeClock();
  const { promise: never } = Promise.withResolvers<void>();
  const sent: string[] = [];
  const send = (_: number, message: string) => {
    sent.push(message);
    return never;
  };
  await using progress = new Progress({ send, clock, signal: new AbortController().signal });
  progress.started(7);
  progress.output("stdout", Buffer.from("a\n"));
  await clock.advance(30_000);
  expect(sent).toEqual(["started pid 7"]);
});
