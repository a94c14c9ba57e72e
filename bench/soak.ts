/**
 * `npm run bench -- soak`: 1,000 sandboxes made and ended, after which the service holds what it held
 * before, and 200 alive at once, with lists within 50 ms.
 */

import { isDeepStrictEqual } from "node:util";
import { startServe } from "../test/support/serve.ts";
import { soak } from "../test/support/soak.ts";

const CYCLES = 1_000;
const ALIVE = 200;
const AT_ONCE = 2;
const MAX_LIST_MS = 50;
/** Caches and the garbage of a run; a leak of a few kilobytes a cycle is above it. */
const MAX_GROWTH_MIB = 16;

/** The exit code: 0 when nothing grew. */
export async function runSoak(): Promise<number> {
  const flags = ["--max-sandboxes", String(ALIVE + AT_ONCE), "--log-level", "warn"];
  await using serve = await startServe(flags);
  const startedAt = performance.now();
  const figures = await soak(serve, { cycles: CYCLES, alive: ALIVE, atOnce: AT_ONCE });
  const { before, after, end, growthMib, listed, listP99Ms } = figures;
  const faults = [
    ...(isDeepStrictEqual(after, before) ? [] : ["something is left of the cycles"]),
    ...(isDeepStrictEqual(end, before) ? [] : ["something is left of those that were alive"]),
    ...(growthMib <= MAX_GROWTH_MIB ? [] : [`memory grew by ${growthMib.toFixed(1)} MiB`]),
    ...(listed === ALIVE ? [] : [`${listed} of ${ALIVE} were listed`]),
    ...(listP99Ms <= MAX_LIST_MS ? [] : [`p99 of list is ${listP99Ms.toFixed(1)} ms`]),
  ];
  const seconds = (performance.now() - startedAt) / 1_000;
  process.stdout.write(`${JSON.stringify({ ...figures, seconds }, null, 2)}\n`);
  for (const fault of faults) process.stdout.write(`soak: ${fault}\n`);
  return faults.length === 0 ? 0 : 1;
}
