/** Readers of one process: none holds the others for long, none gets gaps. */

import { afterEach, expect, test, vi } from "vitest";
import { createFanOut, type Subscription } from "../../../src/envd/process/fan-out.ts";
import { createOutputBudget } from "../../../src/envd/process/output-budget.ts";

const WINDOW = 1_048_576;
/** As large as it is said to be, with what is counted for its administration. */
const QUARTER = WINDOW / 4 - 64;

function setUp(budget = createOutputBudget()) {
  vi.useFakeTimers();
  const calls: string[] = [];
  const source = {
    pause: () => void calls.push("pause"),
    resume: () => void calls.push("resume"),
  };
  const encoded: string[] = [];
  const fanOut = createFanOut<{ readonly id: number; readonly size?: number }>({
    source,
    budget,
    encode({ id, size = 1 }, codec) {
      encoded.push(`${id} ${codec}`);
      return Buffer.alloc(size, id);
    },
    now: () => Date.now(),
  });
  const quarters = (count: number) => {
    for (let id = 0; id < count; id += 1) fanOut.publish({ id, size: QUARTER });
  };
  return { calls, encoded, fanOut, quarters };
}

/** The numbers of the events that come next. */
function take(reader: Subscription): number[] {
  return reader.take().map((frame) => frame[0] ?? -1);
}

afterEach(() => {
  vi.useRealTimers();
});

test("every reader gets every event, the last one at the end", () => {
  const { fanOut } = setUp();
  const readers = [fanOut.subscribe("json"), fanOut.subscribe("json")];
  fanOut.publish({ id: 1 });
  fanOut.finish({ id: 2 });
  for (const reader of readers) {
    expect([take(reader), reader.hasEnded, take(reader)]).toEqual([[1, 2], true, []]);
  }
});

test("an event is encoded once for all readers of a codec, and for no other", () => {
  const { fanOut, encoded } = setUp();
  const readers = [fanOut.subscribe("json"), fanOut.subscribe("json")];
  fanOut.publish({ id: 1 });
  readers.push(fanOut.subscribe("binary"));
  fanOut.publish({ id: 2 });
  const frames = readers.map((reader) => reader.take());
  expect(encoded).toEqual(["1 json", "2 json", "2 binary"]);
  expect(frames[0]?.[0]).toBe(frames[1]?.[0]);
  expect(frames.map((taken) => taken.length)).toEqual([2, 2, 1]);
});

test("without readers the source runs on", () => {
  const { calls, quarters } = setUp();
  quarters(100);
  expect(calls).toEqual([]);
});

test("a lone full reader holds the source until half is read, and loses nothing", async () => {
  const { calls, fanOut, quarters } = setUp();
  const reader = fanOut.subscribe("json");
  quarters(4);
  await vi.advanceTimersByTimeAsync(5_000);
  expect([calls, take(reader)]).toEqual([["pause"], [0]]);
  expect([take(reader), calls]).toEqual([[1], ["pause", "resume"]]);
  expect([take(reader), take(reader)]).toEqual([[2], [3]]);
});

test("a lone reader that takes nothing is cut after thirty seconds", async () => {
  const { calls, fanOut, quarters } = setUp();
  const reader = fanOut.subscribe("json");
  const told: string[] = [];
  reader.onCut((error) => told.push(error.code));
  quarters(4);
  await vi.advanceTimersByTimeAsync(29_000);
  expect([calls, told]).toEqual([["pause"], []]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect([calls, told]).toEqual([["pause", "resume"], ["resource_exhausted"]]);
  expect(() => reader.take()).toThrow("does not keep up");
});

test("a slow reader that is alone is never cut", async () => {
  const { fanOut, quarters } = setUp();
  const reader = fanOut.subscribe("json");
  quarters(8);
  for (let count = 0; count < 3; count += 1) {
    await vi.advanceTimersByTimeAsync(20_000);
    expect(take(reader)).toEqual([count]);
  }
});

test("a full reader that takes nothing holds the others for a blink, once, and is cut", async () => {
  const { calls, fanOut, quarters } = setUp();
  const stuck = fanOut.subscribe("json");
  const reader = fanOut.subscribe("json");
  quarters(4);
  for (let id = 0; id < 4; id += 1) take(reader);
  expect(calls).toEqual(["pause"]);
  await vi.advanceTimersByTimeAsync(30);
  expect(calls).toEqual(["pause"]);
  await vi.advanceTimersByTimeAsync(25);
  expect(calls).toEqual(["pause", "resume"]);
  expect(() => stuck.take()).toThrow("does not keep up");
  quarters(3);
  expect([calls.length, take(reader)]).toEqual([2, [0]]);
});

test("a reader that stopped long ago is not waited for when it becomes full", async () => {
  const { calls, fanOut } = setUp();
  fanOut.subscribe("json");
  const reader = fanOut.subscribe("json");
  for (let id = 0; id < 4; id += 1) {
    fanOut.publish({ id, size: QUARTER });
    take(reader);
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(calls).toEqual(["pause", "resume"]);
});

test("a full reader that goes on slowly is waited for, but not for long", async () => {
  const { calls, fanOut } = setUp();
  const slow = fanOut.subscribe("json");
  const reader = fanOut.subscribe("json");
  for (let id = 0; id < 64; id += 1) fanOut.publish({ id, size: WINDOW / 32 });
  while (take(reader).length > 0);
  for (let id = 0; id < 24; id += 2) {
    expect(take(slow)).toEqual([id, id + 1]);
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(calls).toEqual(["pause"]);
  await vi.advanceTimersByTimeAsync(25);
  expect(calls).toEqual(["pause", "resume"]);
  expect(() => slow.take()).toThrow("does not keep up");
});

test("when all are full, who goes on first is not held by the others", async () => {
  const { calls, fanOut, quarters } = setUp();
  const stuck = [fanOut.subscribe("json"), fanOut.subscribe("json")];
  const reader = fanOut.subscribe("json");
  quarters(4);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(calls).toEqual(["pause"]);
  take(reader);
  take(reader);
  await vi.advanceTimersByTimeAsync(25);
  expect(calls).toEqual(["pause", "resume"]);
  for (const each of stuck) expect(() => each.take()).toThrow("does not keep up");
  expect([take(reader), take(reader)]).toEqual([[2], [3]]);
});

test("what a reader leaves unread after the end is dropped after thirty seconds", async () => {
  const { calls, fanOut, quarters } = setUp();
  const reader = fanOut.subscribe("json");
  quarters(1);
  fanOut.finish({ id: 9 });
  expect(calls).toEqual([]);
  await vi.advanceTimersByTimeAsync(31_000);
  expect(() => reader.take()).toThrow("does not keep up");
});

test("who waits is woken by an event, an end and its own closing, and told of silence", async () => {
  const { fanOut } = setUp();
  const reader = fanOut.subscribe("json");
  const silence = reader.changed(1_000);
  await vi.advanceTimersByTimeAsync(1_000);
  const event = reader.changed(1_000);
  fanOut.publish({ id: 1 });
  const end = reader.changed(1_000);
  reader.close();
  expect([await silence, await event, await end]).toEqual([false, true, true]);
  expect(reader.hasEnded).toBe(true);
});

test("readers have a limit", () => {
  const { fanOut } = setUp();
  const readers = Array.from({ length: 256 }, () => fanOut.subscribe("json"));
  expect(() => fanOut.subscribe("json")).toThrow("more than 256 readers");
  readers[0]?.close();
  fanOut.subscribe("json");
});

test("a full reader that leaves lets the source run", () => {
  const { calls, fanOut, quarters } = setUp();
  const reader = fanOut.subscribe("json");
  quarters(4);
  reader.close();
  reader.close();
  expect(calls).toEqual(["pause", "resume"]);
});

test("processes hold less each when all together hold much, and none starts in the end", () => {
  const budget = createOutputBudget();
  const starts = Array.from({ length: 20 }, () => setUp(budget));
  for (const { fanOut, quarters } of starts) {
    fanOut.subscribe("json");
    quarters(4);
  }
  const late = setUp(budget);
  const reader = late.fanOut.subscribe("json");
  late.quarters(1);
  expect(late.calls).toEqual(["pause"]);
  for (let count = 0; count < 11; count += 1) for (const { quarters } of starts) quarters(1);
  expect(() => budget.requireSpace()).toThrow("output that nobody reads exceeds");
  reader.close();
});
