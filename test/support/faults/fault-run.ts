/** How much of the fault tests is run, and by which seed the rest is left out. */

import { createRandom, type Random } from "../random.ts";

export interface FaultRun {
  /** Every case: `npm run faults`. */
  readonly isWhole: boolean;
  readonly random: Random;
}

/** The seed is told, so that `FAULT_SEED=<seed>` takes the same choices again. */
export function faultRun(): FaultRun {
  const isWhole = process.env["FAULTS"] === "all";
  const seed = Number(process.env["FAULT_SEED"] ?? Date.now() % 1_000_000_000);
  process.stdout.write(`FAULT_SEED=${seed}\n`);
  return { isWhole, random: createRandom(seed) };
}
