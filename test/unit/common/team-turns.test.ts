/** Who goes and who waits when a team begins more than it may do at once. */

import { expect, test } from "vitest";
import { createTeamTurns, type TeamTurns } from "../../../src/common/team-turns.ts";

/** Takes a turn and writes down when it came. */
async function enter(turns: TeamTurns, order: string[], { name, size = 0 }: Entry) {
  const leave = await turns.enter({ team: "a", size });
  order.push(name);
  return leave;
}

interface Entry {
  readonly name: string;
  readonly size?: number;
}

test("what is beyond the bound waits and goes in order of arrival", async () => {
  const turns = createTeamTurns({ maxAtOnce: 2, maxWaiting: 9 });
  const order: string[] = [];
  const all = ["1", "2", "3", "4", "5"].map(async (name) => enter(turns, order, { name }));
  await Promise.all(all.slice(0, 2));
  expect(order).toEqual(["1", "2"]);
  for (const turn of all) (await turn)?.();
  expect(order).toEqual(["1", "2", "3", "4", "5"]);
});

test("those that wait have a bound, and other teams do not wait for them", async () => {
  const turns = createTeamTurns({ maxAtOnce: 1, maxWaiting: 1 });
  const leave = await turns.enter({ team: "a" });
  const second = turns.enter({ team: "a" });
  expect(await turns.enter({ team: "a" })).toBeUndefined();
  expect(await turns.enter({ team: "b" })).toBeDefined();
  leave?.();
  (await second)?.();
  expect(await turns.enter({ team: "a" })).toBeDefined();
});

test("a small one does not overtake a large one that waits", async () => {
  const turns = createTeamTurns({ maxAtOnce: 9, maxSize: 8, maxWaiting: 9 });
  const order: string[] = [];
  const first = await turns.enter({ team: "a", size: 4 });
  const second = await turns.enter({ team: "a", size: 3 });
  const large = enter(turns, order, { name: "large", size: 4 });
  const small = enter(turns, order, { name: "small", size: 1 });
  second?.();
  (await large)?.();
  (await small)?.();
  first?.();
  expect(order).toEqual(["large", "small"]);
});

test("one that gives up its wait leaves its place, and what it held back goes", async () => {
  const turns = createTeamTurns({ maxAtOnce: 9, maxSize: 8, maxWaiting: 9 });
  const first = await turns.enter({ team: "a", size: 5 });
  const gone = new AbortController();
  const large = turns.enter({ team: "a", size: 8, signal: gone.signal });
  const small = turns.enter({ team: "a", size: 1 });
  gone.abort();
  expect(await large).toBeUndefined();
  (await small)?.();
  expect(await turns.enter({ team: "a", signal: gone.signal })).toBeUndefined();
  first?.();
  expect(await turns.enter({ team: "a", size: 8 })).toBeDefined();
});
