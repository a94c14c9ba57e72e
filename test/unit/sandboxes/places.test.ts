/** What a team may have of the sandboxes of a service, by how many teams there are. */

import { expect, test } from "vitest";
import { toShares } from "../../../src/sandboxes/team-quota.ts";

test.for([
  { max: 100, perTeam: undefined, teams: 1, shares: { limit: 100, guaranteed: 100 } },
  { max: 100, perTeam: undefined, teams: 0, shares: { limit: 100, guaranteed: 100 } },
  { max: 100, perTeam: undefined, teams: 2, shares: { limit: 75, guaranteed: 25 } },
  { max: 100, perTeam: undefined, teams: 10, shares: { limit: 55, guaranteed: 5 } },
  { max: 100, perTeam: 30, teams: 1, shares: { limit: 30, guaranteed: 30 } },
  { max: 100, perTeam: 30, teams: 2, shares: { limit: 30, guaranteed: 25 } },
  { max: 100, perTeam: 3, teams: 2, shares: { limit: 3, guaranteed: 3 } },
  { max: 100, perTeam: 500, teams: 2, shares: { limit: 75, guaranteed: 25 } },
  { max: 4, perTeam: undefined, teams: 4, shares: { limit: 1, guaranteed: 1 } },
  { max: 4, perTeam: undefined, teams: 9, shares: { limit: 2, guaranteed: 0 } },
  { max: 1, perTeam: undefined, teams: 2, shares: { limit: 1, guaranteed: 0 } },
])("of $max, with $perTeam for a team and $teams teams → $shares", (row) => {
  const rules = { maxSandboxes: row.max, maxSandboxesPerTeam: row.perTeam };
  expect(toShares(rules, row.teams)).toEqual(row.shares);
});
