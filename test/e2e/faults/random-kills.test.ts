/**
 * Clients work without rest and the service is killed at any moment, again and again: whatever an
 * answer said stays true. `npm run faults` kills it a hundred times, an ordinary run a few.
 */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { listAll } from "../../support/faults/fault-home.ts";
import {
  createLedger,
  findBroken,
  runLoad,
  startFrom,
  takeStrangers,
} from "../../support/faults/fault-load.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openFaultStage } from "../../support/faults/fault-stage.ts";
import { tellCells } from "../../support/run/cells.ts";

const { isWhole, random } = faultRun();
const KILLS = isWhole ? 100 : 2;
/** From no change at all to a few of every client. */
const MAX_LOAD_MS = 1500;
const LIMIT_MS = 20 * 60_000;

test(`R2 ${KILLS} kills at random moments`, { timeout: LIMIT_MS }, async (context) => {
  await using stage = await openFaultStage([]);
  const { home } = stage;
  const bystanders = (await listAll(home)).map(({ sandboxID }) => sandboxID);
  const ledger = createLedger();
  for (let kill = 1; kill <= KILLS; kill += 1) {
    ledger.unanswered = 0;
    const load = runLoad(home, ledger, random);
    await delay(random.below(MAX_LOAD_MS));
    await home.stop("SIGKILL");
    await load;
    await home.start();
    const message = `after kill ${kill}`;
    await expect.poll(() => findBroken(home, ledger), { message, timeout: 20_000 }).toEqual([]);
    const strangers = await takeStrangers(home, ledger, bystanders);
    expect({ kill, isMore: strangers > ledger.unanswered }).toEqual({ kill, isMore: false });
    await stage.expectTruth();
    await startFrom(home, ledger);
  }
  tellCells(context, KILLS);
});
