/** The first start of a new home and its first sandbox, with one write that fails. */

import { errorText } from "../../../src/common/errors.ts";
import { leftOver, takeCensus } from "../census.ts";
import { make, openFaultHome } from "../faults/fault-home.ts";
import { NO_POOL } from "../faults/fault-stage.ts";
import type { FaultPlan, Writes } from "./faults.ts";
import { openFaultyHome, type FaultyHome } from "./faulty-home.ts";

export interface FirstStart {
  readonly writes: Writes;
  readonly isHit: boolean;
  /** How it failed at first; empty where it did not. */
  readonly failure: string;
}

/** @throws Error when the next start, or the next create, does not work, or something is left. */
export async function startFirst(plan?: FaultPlan): Promise<FirstStart> {
  const before = await takeCensus();
  let opened: FaultyHome | undefined;
  const makeHome = async () => (opened = await openFaultyHome());
  const first = await (async () => {
    await using home = await openFaultHome(NO_POOL, makeHome);
    await opened?.begin(plan);
    const failure = await start().then(() => "", errorText);
    const ended = await opened?.end();
    if (!home.isRunning()) await home.start();
    await make(home);
    await home.stop("SIGTERM");
    return { failure, writes: ended?.writes ?? [], isHit: ended?.isHit === true };

    async function start(): Promise<void> {
      await home.start();
      await make(home);
    }
  })();
  const left = leftOver(before, await takeCensus());
  if (left.length > 0) throw new Error(`left: ${left.join(", ")}`);
  return first;
}
