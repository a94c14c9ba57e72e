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
