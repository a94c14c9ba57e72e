import { setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { createLoopWaker } from "../../../src/envd/wake-loop.ts";

afterEach(() => {
  vi.restoreAllMocks();
  process.removeAllListeners("SIGWINCH");
});

it("wakes once for all connections that close in one turn, by a signal that ends nothing", async () => {
  const sent = vi.spyOn(process, "kill");
  const touchListeners = vi.fn<() => void>();
  const wake = createLoopWaker(touchListeners);
  wake();
  wake();
  expect(sent).not.toHaveBeenCalled();
  await turn();
  wake();
  await turn();
  await turn();
  expect(sent.mock.calls).toEqual([
    [process.pid, "SIGWINCH"],
    [process.pid, "SIGWINCH"],
  ]);
  expect(touchListeners).toHaveBeenCalledTimes(2);
});
