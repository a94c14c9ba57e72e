/** How output that follows an input is waited for, and what that costs. */

import { expect, test } from "vitest";
import { followInput } from "../../../src/mcp/processes/follow-input.ts";
import type { ProcessState, ProcessView } from "../../../src/output/capture.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const INPUT = Buffer.from("print(1)\n");
const QUIET_MS = 400;

/** A process that prints when the test says so, and counts how often its output is read. */
function printing() {
  const clock = createFakeClock();
  const waiting = new Set<() => void>();
  let state: ProcessState = { kind: "running" };
  let text = "";
  let reads = 0;
  const process: ProcessView = {
    sandboxId: "ia",
    processId: "p_1",
    get state() {
      return state;
    },
    startedAtMs: 0,
    endedAtMs: undefined,
    isAttached: false,
    unwrittenBytes: 0,
    isOrphan: false,
    output: {
      get totalBytes() {
        return text.length;
      },
      get written() {
        return { stdout: text.length, stderr: 0 };
      },
      lostBytes: 0,
      async pieces(from) {
        reads += 1;
        return [{ stream: "stdout", start: from, bytes: Buffer.from(text.slice(from)) }];
      },
    },
    async changed(signal) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = () => {
        waiting.delete(wake);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener("abort", wake, { once: true });
      await promise;
    },
  };
  const wakeAll = async () => {
    for (const wake of waiting) wake();
    await clock.advance(1);
  };
  return {
    clock,
    process,
    reads: () => reads,
    print(more: string) {
      text += more;
      return wakeAll();
    },
    end() {
      state = { kind: "ended", exitCode: 0, reason: "exit status 0" };
      return wakeAll();
    },
  };
}

/** Whether the wait is over. */
function follow(world: ReturnType<typeof printing>, typed = INPUT): () => boolean {
  const { clock, process } = world;
  const deadline = new AbortController().signal;
  let isOver = false;
  const sent = { cursor: 0, writtenBytes: 0 };
  const find = async () => process;
  void followInput(process, { clock, deadline, sent, typed, find }).then(() => (isOver = true));
  return () => isOver;
}

test("what a program on a pipe repeats is an answer", async () => {
  const world = printing();
  const isOver = follow(world, Buffer.alloc(0));
  await world.print(INPUT.toString());
  await world.clock.advance(QUIET_MS + 10);
  expect(isOver()).toBe(true);
});

test("an echo alone is no answer, and what follows it is one after a pause", async () => {
  const world = printing();
  const isOver = follow(world);
  await world.print("print(1)\r\n");
  await world.clock.advance(10 * QUIET_MS);
  expect(isOver()).toBe(false);
  await world.print("1\r\n");
  await world.clock.advance(QUIET_MS - 10);
  expect(isOver()).toBe(false);
  await world.clock.advance(20);
  expect(isOver()).toBe(true);
});

test("output that comes byte by byte is looked at once it pauses", async () => {
  const world = printing();
  const isOver = follow(world);
  for (let count = 0; count < 300; count += 1) await world.print("x");
  await world.clock.advance(QUIET_MS);
  expect(isOver()).toBe(true);
  expect(world.reads()).toBeLessThan(5);
});

test("an echo that comes behind other blanks is none either", async () => {
  const world = printing();
  const isOver = follow(world);
  await world.print("\r\n");
  await world.print("print(1)");
  await world.clock.advance(2 * QUIET_MS);
  expect(isOver()).toBe(false);
});

test("the end of a process that has only echoed ends the wait", async () => {
  const world = printing();
  const isOver = follow(world);
  await world.print("print(1)\r\n");
  await world.end();
  expect(isOver()).toBe(true);
});

/** As of a daemon that does not answer. */
const findNothing = async () => new Promise<ProcessView>(() => undefined);

test("the wait ends in time where the process is looked for longer", async () => {
  const { clock, process } = printing();
  const orphan: ProcessView = { ...process, isOrphan: true };
  const deadline = new AbortController();
  const sent = { cursor: 0, writtenBytes: 0 };
  const options = { clock, deadline: deadline.signal, sent, typed: INPUT, find: findNothing };
  const following = followInput(orphan, options);
  deadline.abort();
  expect(await following).toEqual({ process: orphan, sent });
});

test("an answer is told where its process is watched anew, whose output begins at zero", async () => {
  const world = printing();
  const { clock, process } = world;
  const output = { ...process.output, totalBytes: 500, written: { stdout: 500, stderr: 0 } };
  const orphan: ProcessView = { ...process, startedAtMs: -1, isOrphan: true, output };
  const deadline = new AbortController().signal;
  const sent = { cursor: 500, writtenBytes: 500 };
  const find = async () => process;
  let sentNow: unknown;
  void followInput(orphan, { clock, deadline, sent, typed: INPUT, find }).then(
    (followed) => (sentNow = followed.sent),
  );
  await clock.advance(1);
  await world.print("1\r\n");
  await clock.advance(QUIET_MS);
  expect(sentNow).toEqual({ cursor: 0, writtenBytes: 0 });
});
