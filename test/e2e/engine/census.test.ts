/** What a census of one home counts, and what of others on the same machine it does not. */

import { expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { startOciHost } from "../../support/engine/oci-host.ts";

/** The runtime's own process may still be ending after a create. */
async function awaitRuntimeEnd(home: string): Promise<void> {
  await expect.poll(async () => (await takeCensus(home)).processes).toHaveLength(2);
}

test("a census counts a home's own traces, and those of another home never", async () => {
  await using own = await startOciHost("auto");
  await using other = await startOciHost("auto");
  const container = await own.create();
  await awaitRuntimeEnd(own.home);
  const before = await takeCensus(own.home);
  const bystander = await other.create();
  await awaitRuntimeEnd(other.home);
  const [ours, theirs] = [await takeCensus(own.home), await takeCensus(other.home)];
  expect(ours).toEqual(before);
  for (const [census, { id }] of [
    [ours, container],
    [theirs, bystander],
  ] as const) {
    expect(census.processes.length).toBeGreaterThan(0);
    expect(census.networks).toHaveLength(1);
    expect(census.loopDevices).toHaveLength(1);
    expect(census.idClaims).toEqual([expect.stringContaining(id)]);
    expect(census.mounts).toEqual([expect.stringContaining(id)]);
    expect(census.cgroups.filter((path) => path.endsWith(`/${id}`)).length).toBeGreaterThan(0);
  }
  expect(theirs.cgroups.filter((path) => ours.cgroups.includes(path))).toEqual([]);
  await bystander[Symbol.asyncDispose]();
  expect(await takeCensus(other.home)).toMatchObject({ processes: [], loopDevices: [] });
});
