/** Sandboxes that come and go leave nothing in their service; the large run is `npm run bench -- soak`. */

import { expect, test } from "vitest";
import { startMeasuredServe } from "../support/load/measured-serve.ts";
import { listGrown, soak } from "../support/load/soak.ts";

const SMALL = { cycles: 16, calls: 200, alive: 6, atOnce: 2 };

test("a service holds after many sandboxes what it held before", async () => {
  await using serve = await startMeasuredServe([]);
  const { before, after, end, listed } = await soak(serve, SMALL);
  expect(listed).toBe(SMALL.alive);
  expect([...listGrown(before, after), ...listGrown(before, end)]).toEqual([]);
});
