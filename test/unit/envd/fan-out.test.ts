/** Readers of one process: none holds the others, none gets gaps. */

import { afterEach, expect, test, vi } from "vitest";
import { createFanOut } from "../../../src/envd/process/fan-out.ts";

const QUARTER = 262_144;
const NEVER = new AbortController().signal;

function createSource() {
  const calls: string[] = [];
  return { calls, pause: () => void calls.push("pause"), resume: () => void calls.push("resume") };
}

function setUp() {
  vi.useFakeTimers();
  const source = createSource();
  const fanOut = createFanOut<number>(source, () => Date.now());
  return { source, fanOut };
}

afterEach(() => {
  vi.useRealTimers();
});

test("every reader gets every event, the last one at the end", async () => {
  const { fanOut } = setUp();
  const readers = [fanOut.subscribe(), fanOut.subscribe()];
  fanOut.publish(1, 10);
  fanOut.finish(2);
  for (const { events } of readers) {
    expect([
      await events.take(1, NEVER),
      await events.take(1, NEVER),
      await events.take(1, NEVER),
    ]).toEqual([{ kind: "item", value: 1 }, { kind: "item", value: 2 }, { kind: "end" }]);
  }
});

test("without readers the source runs on", () => {
  const { fanOut, source } = setUp();
  for (let count = 0; count < 100; count += 1) fanOut.publish(count, QUARTER);
  expect(source.calls).toEqual([]);
});

test("a full reader holds the source until half is read", async () => {
  const { fanOut, source } = setUp();
  const { events } = fanOut.subscribe();
  for (let count = 0; count < 4; count += 1) fanOut.publish(count, QUARTER);
  expect(source.calls).toEqual(["pause"]);
  await events.take(1, NEVER);
  expect(source.calls).toEqual(["pause"]);
  await events.take(1, NEVER);
  await events.take(1, NEVER);
  expect(source.calls).toEqual(["pause", "resume"]);
});

test("a lone reader that takes nothing is cut after thirty seconds", async () => {
  const { fanOut, source } = setUp();
  const { events } = fanOut.subscribe();
  for (let count = 0; count < 4; count += 1) fanOut.publish(count, QUARTER);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(source.calls).toEqual(["pause"]);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(source.calls).toEqual(["pause", "resume"]);
  await expect(events.take(1, NEVER)).rejects.toMatchObject({ code: "resource_exhausted" });
});

test("a slow reader that is alone is never cut", async () => {
  const { fanOut } = setUp();
  const { events } = fanOut.subscribe();
  for (let count = 0; count < 8; count += 1) fanOut.publish(count, QUARTER);
  for (let count = 0; count < 3; count += 1) {
    await vi.advanceTimersByTimeAsync(20_000);
    expect(await events.take(1, NEVER)).toEqual({ kind: "item", value: count });
  }
});

test("a full reader holds the others for a blink at each event, and is cut after a second", async () => {
  const { fanOut, source } = setUp();
  const slow = fanOut.subscribe();
  const fast = fanOut.subscribe();
  for (let count = 0; count < 4; count += 1) {
    fanOut.publish(count, QUARTER);
    await fast.events.take(1, NEVER);
  }
  expect(source.calls).toEqual(["pause"]);
  await vi.advanceTimersByTimeAsync(20);
  expect(source.calls).toEqual(["pause", "resume"]);
  fanOut.publish(4, 1);
  expect(source.calls).toEqual(["pause", "resume", "pause"]);
  expect(await fast.events.take(1, NEVER)).toEqual({ kind: "item", value: 4 });
  await vi.advanceTimersByTimeAsync(1_000);
  fanOut.publish(5, 1);
  await vi.advanceTimersByTimeAsync(20);
  await expect(slow.events.take(1, NEVER)).rejects.toMatchObject({ code: "resource_exhausted" });
  const { length } = source.calls;
  fanOut.publish(6, 1);
  expect(source.calls).toHaveLength(length);
});

test("a reader that is four queues behind the others is cut at once", async () => {
  const { fanOut } = setUp();
  const slow = fanOut.subscribe();
  const fast = fanOut.subscribe();
  for (let count = 0; count < 16; count += 1) {
    fanOut.publish(count, QUARTER);
    await fast.events.take(1, NEVER);
  }
  await vi.advanceTimersByTimeAsync(20);
  await expect(slow.events.take(1, NEVER)).rejects.toMatchObject({ code: "resource_exhausted" });
});

test("readers have a limit", () => {
  const { fanOut } = setUp();
  const readers = Array.from({ length: 256 }, () => fanOut.subscribe());
  expect(() => fanOut.subscribe()).toThrow("more than 256 readers");
  readers[0]?.close();
  fanOut.subscribe();
});

test("a full reader that leaves lets the source run", () => {
  const { fanOut, source } = setUp();
  const reader = fanOut.subscribe();
  for (let count = 0; count < 4; count += 1) fanOut.publish(count, QUARTER);
  reader.close();
  reader.close();
  expect(source.calls).toEqual(["pause", "resume"]);
});
