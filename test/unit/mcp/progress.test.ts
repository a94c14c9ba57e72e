/** Progress notifications: at once, then once a second at most, and a heartbeat in silence. */

import { expect, test } from "vitest";
import { Progress } from "../../../src/mcp/progress.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function startProgress() {
  const clock = createFakeClock();
  const sent: (readonly [number, string])[] = [];
  const send = async (progress: number, message: string) => void sent.push([progress, message]);
  const { signal } = new AbortController();
  return { clock, sent, progress: new Progress({ send, clock, signal }) };
}

test("the start is told at once, then the last line of each second", async () => {
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
    [14, "output: three"],
    [20, "output: four"],
  ]);
});

test("a silent process is told of every ten seconds, with rising numbers", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.started(7);
  await clock.advance(25_000);
  progress.output("stdout", Buffer.from("x\n"));
  await clock.advance(1_000);
  expect(sent).toEqual([
    [0, "started pid 7"],
    [1, "still running"],
    [2, "still running"],
    [4, "output: x"],
  ]);
});

test("a line that is not finished is told, cleaned and cut", async () => {
  const { clock, sent, progress } = startProgress();
  await using _ = progress;
  progress.output("stdout", Buffer.from(`\u001b[32m10%\r${"9".repeat(300)}`));
  await clock.advance(2_000);
  expect(sent.map(([, message]) => message)).toEqual([`output: ${"9".repeat(200)}`]);
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
