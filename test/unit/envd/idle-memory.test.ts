import { afterEach, beforeEach, expect, it, vi, type MockInstance } from "vitest";
import { createIdleMemory } from "../../../src/envd/idle-memory.ts";

let collected: MockInstance;

beforeEach(() => {
  const vm = process.getBuiltinModule("node:vm");
  collected = vi.spyOn(vm, "runInNewContext").mockReturnValue(undefined);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

it("gives memory back a second after the last of its calls", () => {
  const rest = createIdleMemory();
  const [first, second] = [rest.begin(), rest.begin()];
  first();
  vi.advanceTimersByTime(5_000);
  expect(collected).not.toHaveBeenCalled();
  second();
  vi.advanceTimersByTime(999);
  expect(collected).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(collected).toHaveBeenCalledOnce();
});

it("answers the service that thaws it first, and gives memory back a second later", () => {
  const rest = createIdleMemory();
  rest.begin()();
  const frozenMs = 60_000;
  const now = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => now() + frozenMs);
  vi.advanceTimersByTime(1_000);
  expect(collected).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1_000);
  expect(collected).toHaveBeenCalledOnce();
});

it("gives memory back once, however often it is asked whether it answers", () => {
  const rest = createIdleMemory();
  rest.beginQuestion()();
  vi.advanceTimersByTime(1_000);
  // That of its start.
  expect(collected).toHaveBeenCalledOnce();
  for (let count = 0; count < 10; count += 1) {
    rest.beginQuestion()();
    vi.advanceTimersByTime(2_000);
  }
  expect(collected).toHaveBeenCalledOnce();
  rest.begin()();
  rest.beginQuestion()();
  vi.advanceTimersByTime(2_000);
  expect(collected).toHaveBeenCalledTimes(2);
});

it("takes what comes next for work after it was told to rest", () => {
  const rest = createIdleMemory();
  rest.now();
  rest.beginQuestion()();
  vi.advanceTimersByTime(2_000);
  expect(collected).toHaveBeenCalledOnce();
  rest.begin()();
  vi.advanceTimersByTime(1_000);
  expect(collected).toHaveBeenCalledTimes(2);
});
