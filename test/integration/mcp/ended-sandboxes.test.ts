/** A sandbox that ends by its timeout, of which nothing tells the server. */

import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

const MINUTE_MS = 60_000;

test("the log of a sandbox that ended by its timeout is no resource for long", async () => {
  const clock = createFakeClock();
  await using world = await startMcpWorld(clock);
  const [lasting, ending] = [await world.createSandbox(), await world.createSandbox()];
  await world.call("set_timeout", { sandbox_id: lasting, timeout_seconds: 3_600 });
  await world.call("set_timeout", { sandbox_id: ending, timeout_seconds: 60 });
  const listed = async () =>
    (await world.host.client.listResources()).resources.map(({ uri }) => uri).toSorted();
  const logs = [lasting, ending].map((id) => `sandbox:///${id}/log`);
  expect(await listed()).toEqual(logs.toSorted());
  await clock.advance(2 * MINUTE_MS);
  const look = async () => (await world.test.call({ path: `/sandboxes/${ending}` })).status;
  await expect.poll(look).toBe(404);
  await clock.advance(6 * MINUTE_MS);
  await expect.poll(listed).toEqual([`sandbox:///${lasting}/log`]);
});
