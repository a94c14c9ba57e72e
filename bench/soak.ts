/**
 * `npm run bench -- soak`: 2,000 sandboxes made and ended and 20,000 calls without a failure, after
 * which the service holds what it held before, and 200 alive at once, with lists within 50 ms.
 */

import { startMeasuredServe } from "../test/support/load/measured-serve.ts";
import { listGrown, soak } from "../test/support/load/soak.ts";

const CYCLES = 2_000;
const CALLS = 20_000;
const ALIVE = 200;
const AT_ONCE = 2;
const MAX_LIST_MS = 50;
const MIB = 1_024 * 1_024;
/** After a forced collection: a leak of a kilobyte a cycle is above it. */
const MAX_GROWTH_MIB = 2;

/** The exit code: 0 when nothing grew. */
export async function runSoak(): Promise<number> {
  const flags = ["--max-sandboxes", String(ALIVE + AT_ONCE), "--log-level", "warn"];
  await using serve = await startMeasuredServe(flags);
  const startedAt = performance.now();
  const options = { cycles: CYCLES, calls: CALLS, alive: ALIVE, atOnce: AT_ONCE };
  const figures = await soak(serve, options);
  const { before, after, end, growthBytes, listed, listP99Ms } = figures;
  const growthMib = growthBytes / MIB;
  const faults = [
    ...listGrown(before, after).map((grown) => `left of the cycles: ${grown}`),
    ...listGrown(before, end).map((grown) => `left of those that were alive: ${grown}`),
    ...(growthMib <= MAX_GROWTH_MIB ? [] : [`memory grew by ${growthMib.toFixed(1)} MiB`]),
    ...(listed === ALIVE ? [] : [`${listed} of ${ALIVE} were listed`]),
    ...(listP99Ms <= MAX_LIST_MS ? [] : [`p99 of list is ${listP99Ms.toFixed(1)} ms`]),
  ];
  const seconds = (performance.now() - startedAt) / 1_000;
  process.stdout.write(`${JSON.stringify({ ...figures, seconds }, null, 2)}\n`);
  for (const fault of faults) process.stdout.write(`soak: ${fault}\n`);
  return faults.length === 0 ? 0 : 1;
}
