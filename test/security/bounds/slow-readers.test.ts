/** Streams that nobody reads harm nobody. */

import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/envd.ts";
import { measureSlowReaders } from "../../support/slow-readers.ts";

const MIB = 1024 * 1024;
const MAX_ADDED_MS = 50;
/** A machine with other work delays everybody now and then, but not round after round. */
const MAX_ROUNDS = 4;
/** The first round also grows what the daemon keeps for its own use from then on. */
const MAX_FIRST_GROWTH_BYTES = 128 * MIB;
const MAX_GROWTH_BYTES = 24 * MIB;

test.for([1, 100])("%i of them delay no other, and hold no memory", async (count) => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const first = await measureSlowReaders(daemon, count);
  expect(first.growthBytes).toBeLessThan(MAX_FIRST_GROWTH_BYTES);
  let addedMs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < MAX_ROUNDS && addedMs > MAX_ADDED_MS; round += 1) {
    const next = await measureSlowReaders(daemon, count);
    expect(next.growthBytes).toBeLessThan(MAX_GROWTH_BYTES);
    addedMs = Math.min(addedMs, next.duringMs - next.beforeMs);
  }
  expect(addedMs).toBeLessThan(MAX_ADDED_MS);
});
