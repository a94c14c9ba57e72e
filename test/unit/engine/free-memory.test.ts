/** Memory for images that are restored: what does not fit waits for others, or is refused. */

import { totalmem } from "node:os";
import { expect, test, vi } from "vitest";
import { reserveMemory } from "../../../src/engine/gvisor/free-memory.ts";

const signal = new AbortController().signal;
/** More than a half of what can be free, and less than that. */
const LARGE = Math.floor(totalmem() / 2);
const refusal = { code: "resource_exhausted", message: /^an encrypted image of [0-9]+ MB/ };

test("an image that is larger than the memory of the machine is refused at once", async () => {
  await expect(reserveMemory(LARGE, signal)).rejects.toMatchObject({
    code: refusal.code,
    message: expect.stringMatching(refusal.message),
    hint: expect.stringContaining("memory: false"),
  });
});

test("one that does not fit beside another waits for its end", async () => {
  const first = await reserveMemory(1_000_000, signal);
  let isRefused = false;
  const second = reserveMemory(LARGE, signal).catch(() => {
    isRefused = true;
  });
  await new Promise(setImmediate);
  expect(isRefused).toBe(false);
  const third = await reserveMemory(1_000_000, signal);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await new Promise(setImmediate);
  expect(isRefused).toBe(false);
  third[Symbol.dispose]();
  await second;
  expect(isRefused).toBe(true);
});

test("a wait ends with its signal", async () => {
  const held = await reserveMemory(1_000_000, signal);
  const controller = new AbortController();
  const waiting = reserveMemory(LARGE, controller.signal);
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ code: refusal.code });
  held[Symbol.dispose]();
});

test("a service in a cgroup without a limit has the memory of the machine", async () => {
  const limit = vi.spyOn(process, "constrainedMemory").mockReturnValue(0);
  using stack = new DisposableStack();
  stack.defer(() => limit.mockRestore());
  (await reserveMemory(1_000_000, signal))[Symbol.dispose]();
  await expect(reserveMemory(LARGE, signal)).rejects.toMatchObject({ code: refusal.code });
});
