/** Places: the bounds hold for every order of creates and ends, and no team takes the share of another. */

import { expect, test } from "vitest";
import { createTeamQuota } from "../../../src/sandboxes/team-quota.ts";
import { PlacesWorld } from "../../support/hostile/places-world.ts";
import { createRandom } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";

const SEQUENCES = 600;
const STEPS = 80;
const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);

test(`E50 teams of a service keep their shares in every order of events, seed ${SEED}`, (context) => {
  const random = createRandom(SEED);
  for (let sequence = 0; sequence < SEQUENCES; sequence += 1) {
    const world = new PlacesWorld(random);
    for (let step = 0; step < STEPS; step += 1) world.step();
    expect(world.faults).toEqual([]);
  }
  tellCells(context, SEQUENCES);
});

test("E50 control: without shares one team takes everything", () => {
  const alive = new Map<string, number>();
  const rules = { maxSandboxes: 10, maxSandboxesPerTeam: undefined };
  const places = createTeamQuota({ ...rules, teams: () => [], count: () => alive });
  for (let index = 0; index < 10; index += 1) places.take("a");
  expect(() => places.take("b")).toThrow(/at most/);
});
