/** When the way of sandboxes to the internet is looked for again. */

import { expect, test } from "vitest";
import type { EngineCheck } from "../../../src/engine/engine.ts";
import { rememberEgress, type EgressSupport } from "../../../src/engine/network/egress-support.ts";

const check: EngineCheck = { name: "internet", outcome: "ok", detail: "" };
const NOTHING: EgressSupport = { check, outside: undefined };

function way(...resolvers: string[]): EgressSupport {
  const outside = { path: undefined, program: "", perlDirectory: "", resolvers, changes: 0 };
  return { check, outside };
}

/** A machine whose network is as `now` says. */
function machine(now: EgressSupport) {
  const state = { now, facts: "", looks: 0 };
  const find = async () => {
    state.looks += 1;
    return state.now;
  };
  return { state, support: rememberEgress(find, () => state.facts) };
}

test("a machine that had no network when it was asked first is looked at again once it has one", async () => {
  const { state, support } = machine(NOTHING);
  const before = await support("cached");
  Object.assign(state, { now: way("192.0.2.53"), facts: "a route" });
  const after = await support("cached");
  expect([before.outside, after.outside?.resolvers]).toEqual([undefined, ["192.0.2.53"]]);
});

test("it is looked at once while nothing changes, also by many at once", async () => {
  const { state, support } = machine(way());
  await Promise.all([support("cached"), support("cached")]);
  await support("cached");
  expect(state.looks).toBe(1);
  await support("fresh");
  expect(state.looks).toBe(2);
});

test("who has the network of before sees the name servers of now, and that they have changed", async () => {
  const { state, support } = machine(way("192.0.2.53"));
  const { outside } = await support("cached");
  const before = outside?.changes;
  Object.assign(state, { now: way("198.51.100.53"), facts: "others" });
  const later = await support("cached");
  expect(later.outside).toBe(outside);
  expect(outside?.resolvers).toEqual(["198.51.100.53"]);
  expect(outside?.changes).not.toBe(before);
});

test("a network that is gone for a while is there still for sandboxes that are made meanwhile", async () => {
  const { state, support } = machine(way("192.0.2.53"));
  const { outside } = await support("cached");
  Object.assign(state, { now: NOTHING, facts: "no route" });
  expect((await support("cached")).outside).toBe(outside);
});

test("a look that fails is made again", async () => {
  let looks = 0;
  const support = rememberEgress(
    async () => {
      looks += 1;
      if (looks === 1) throw new Error("no descriptor");
      return way();
    },
    () => "",
  );
  await expect(support("cached")).rejects.toThrow("no descriptor");
  expect((await support("cached")).outside?.resolvers).toEqual([]);
});
