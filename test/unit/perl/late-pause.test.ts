/**
 * A kernel that is asked for a pause answers when the last program has left it, which may take as long
 * as a slow disk: what was given up by then must not come about later, and pauses nest.
 */

import { expect, test, vi } from "vitest";
import { startRelayWorld } from "../../support/daemon/relay-world.ts";

// The relay waits ten seconds for an answer.
vi.setConfig({ testTimeout: 40_000 });

const nothing = (): void => undefined;
const [running, paused] = ["running\n", "paused\n"];

test("a pause that comes about after it failed is ended, and the next one is one", async () => {
  await using world = await startRelayWorld(nothing);
  await world.holdPauses(true);
  expect(await world.order("pause")).toBe("failed\n");
  // What its giver does then.
  expect(await world.order("resume")).toBe(running);
  expect(await world.order("state")).toBe(running);
  expect(world.orders()).toEqual(["Pause"]);
  await world.holdPauses(false);
  await expect.poll(() => world.orders()).toEqual(["Pause", "Resume"]);
  expect(await world.order("state")).toBe(running);
  expect(await world.order("pause")).toBe(paused);
  expect(await world.order("resume")).toBe(running);
  expect(world.orders()).toEqual(["Pause", "Resume", "Pause", "Resume"]);
});

test("an order whose giver has gone before the answer is taken back", async () => {
  await using world = await startRelayWorld(nothing);
  await world.holdPauses(true);
  await world.orderAndGo("pause", async () => {
    await expect.poll(() => world.orders()).toEqual(["Pause"]);
  });
  await world.holdPauses(false);
  await expect.poll(() => world.orders()).toEqual(["Pause", "Resume"]);
  expect(await world.order("state")).toBe(running);
});

test("the guardian's pause comes about also where it came before the daemon serves", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await using world = await startRelayWorld(nothing, undefined, async () => promise);
  world.signal("SIGUSR1");
  resolve();
  await expect.poll(() => world.orders()).toEqual(["Pause"]);
  expect(await world.order("state")).toBe(paused);
});

test("a question for the state changes nothing of a pause that has not come about", async () => {
  await using world = await startRelayWorld(nothing);
  await world.holdPauses(true);
  world.signal("SIGUSR1");
  await expect.poll(() => world.orders()).toEqual(["Pause"]);
  // The relay waits for the kernel, and reads the question when its giver has gone.
  await world.orderAndGo("state", async () => undefined);
  expect(await world.order("state")).toBe(paused);
  await world.holdPauses(false);
  expect(await world.order("pause")).toBe(paused);
  expect(world.orders()).toEqual(["Pause"]);
});

test.for([
  { kernel: "paused", next: "resume", becomes: running, orders: ["Pause", "Resume"] },
  { kernel: "running", next: "pause", becomes: paused, orders: ["Pause", "Pause"] },
])(
  "the relay after one that died before an answer finds the kernel $kernel",
  async ({ kernel, next, becomes, orders }) => {
    let daemon = Promise.resolve();
    await using world = await startRelayWorld(nothing, undefined, async () => daemon);
    await world.holdPauses(true);
    world.signal("SIGUSR1");
    await expect.poll(() => world.orders()).toEqual(["Pause"]);
    if (kernel === "paused") daemon = new Promise(nothing);
    await world.replaceRelay();
    await world.holdPauses(false);
    expect(await world.order("state")).toBe(`${kernel}\n`);
    expect(await world.order(next)).toBe(becomes);
    expect(world.orders()).toEqual(orders);
    // It is on record, also for one after it.
    daemon = Promise.resolve();
    await world.replaceRelay();
    expect(await world.order("state")).toBe(becomes);
  },
);
