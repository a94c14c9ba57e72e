/** Builds of teams take turns, and one that is cancelled waits for none. */

import { expect, test } from "vitest";
import { createBuildQueue } from "../../../../src/sandboxes/template-builds/build-queue.ts";

const never = new AbortController().signal;

test("a team with many builds lets that of another team go first", async () => {
  const queue = createBuildQueue(2);
  const order: string[] = [];
  const leaves: (() => void)[] = [];
  const names = ["a1", "a2", "a3", "a4", "b1"];
  const entered = names.map(async (name) => {
    leaves.push(await queue.enter(name.slice(0, 1), never));
    order.push(name);
  });
  for (let index = 0; index < names.length; index += 1) {
    await expect.poll(() => leaves.length).toBeGreaterThan(index);
    leaves[index]?.();
  }
  await Promise.all(entered);
  expect(order).toEqual(["a1", "a2", "b1", "a3", "a4"]);
});

test("a build that is cancelled while it waits takes no turn", async () => {
  const queue = createBuildQueue(1);
  const leave = await queue.enter("a", never);
  const cancel = new AbortController();
  const cancelled = queue.enter("a", cancel.signal);
  const next = queue.enter("b", never);
  cancel.abort();
  (await cancelled)();
  const isNext = await Promise.race([next.then(() => true), Promise.resolve(false)]);
  expect(isNext).toBe(false);
  leave();
  (await next)();
  (await queue.enter("a", never))();
});
