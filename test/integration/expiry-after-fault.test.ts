/** A time to live that ends during a change which then fails: the sandbox ends at once, not later. */

import { expect, test } from "vitest";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { createFakeClock } from "../support/fake-clock.ts";
import { startTestService } from "../support/service.ts";

const LIFE_SECONDS = 60;

test.for([
  { change: "snapshot", held: "snapshot", path: "snapshots", body: { name: "shot" } },
  { change: "fork", held: "snapshot", path: "fork", body: { count: 1 } },
  { change: "pause", held: "pause", path: "pause", body: {} },
] as const)("a sandbox whose $change failed ends on time", async ({ held, path, body }) => {
  const clock = createFakeClock();
  const engine = createHeldEngine();
  await using service = await startTestService({ engine: engine.engine, clock });
  const { sandboxID } = await service.create({ timeout: LIFE_SECONDS });
  using hold = engine.hold(held);
  const change = service.call({ method: "POST", path: `/sandboxes/${sandboxID}/${path}`, body });
  await hold.reached;
  await clock.advance((LIFE_SECONDS + 1) * 1000);
  hold.fail();
  expect((await change).status).toBe(503);
  // The clock stands still: nothing that looks only from time to time looks any more.
  const status = async () => (await service.call({ path: `/sandboxes/${sandboxID}` })).status;
  await expect.poll(status).toBe(404);
});
