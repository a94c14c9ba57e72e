/** Work that is looked after while it writes to a disk. */

import { expect, onTestFinished, test, vi } from "vitest";
import { whileSpaceLeft } from "../../../src/sandboxes/disks/disk-space.ts";

test("one look at a time waits for a disk that hangs", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let looks = 0;
  const hanging = Promise.withResolvers<void>();
  const requireSpaceLeft = async (): Promise<void> => {
    looks += 1;
    if (looks === 2) await hanging.promise;
  };
  const { signal } = new AbortController();
  const work = Promise.withResolvers<string>();
  const done = whileSpaceLeft({ signal, requireSpaceLeft }, async () => work.promise);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(looks).toBe(2);
  hanging.resolve();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(looks).toBeGreaterThan(2);
  work.resolve("done");
  expect(await done).toBe("done");
});
