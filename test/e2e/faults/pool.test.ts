/** The service is killed, or fails, while a create takes over a sandbox that waits in the pool. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { POOLED } from "../../support/faults/fault-cases.ts";
import { listAll } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";

const { isWhole, random } = faultRun();
const steps = isWhole ? POOLED.steps : [random.pick(POOLED.steps)];

let stage: FaultStage;

beforeAll(async () => {
  stage = await openFaultStage(["--pool", "1"]);
});

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

test.for(steps)("R2 killed at %s of a create from the pool", async (step) => {
  const { home } = stage;
  const id = await POOLED.prepare(home);
  const known = (await listAll(home)).length;
  await home.plan({ step, action: "kill" });
  await POOLED.act(home, id);
  await home.ended();
  await home.start();
  await stage.expectTruth();
  const counts = POOLED.steps.indexOf(step) >= POOLED.steps.indexOf(POOLED.countsFrom);
  expect(await listAll(home)).toHaveLength(known + (counts ? 1 : 0));
});

test.for(steps.filter((step) => step !== POOLED.countsFrom))(
  "a fault at %s of a create from the pool",
  async (step) => {
    const { home } = stage;
    const id = await POOLED.prepare(home);
    const known = (await listAll(home)).length;
    await home.plan({ step, action: "fail" });
    await POOLED.act(home, id);
    await stage.expectTruth();
    // One that does not work is replaced by one that is started then.
    await expect.poll(async () => (await listAll(home)).length).toBe(known + 1);
  },
);
