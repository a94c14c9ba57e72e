/**
 * The service is killed at each named step of each operation; started anew, it has lost nothing
 * that counted, and nothing is left over. `npm run faults` takes every step, an ordinary
 * run some, `npm run security` all of a create.
 */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { fateOf, OPERATIONS, RECOVERY } from "../../support/faults/fault-cases.ts";
import { make } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";
import { killAt } from "../../support/faults/kill-case.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

const { isWhole, random } = faultRun();
const MAX_START_MS = 5000;
/** In an ordinary run. */
const SOME = 10;

let stage: FaultStage;

beforeAll(async () => {
  stage = await openFaultStage();
});

afterEach(() => stage.clear());

afterAll(async () => {
  const sorted = stage.home.startsMs.toSorted((left, right) => left - right);
  const [median, longest] = [sorted[sorted.length >> 1], sorted.at(-1)];
  const figures = `median ${median} ms, longest ${longest} ms`;
  process.stdout.write(`starts until an answer: ${sorted.length}, ${figures}\n`);
  await stage[Symbol.asyncDispose]();
});

async function restart(): Promise<void> {
  const { home } = stage;
  await home.start();
  // An ordinary run shares the machine with whatever else runs there.
  expect(isWhole ? home.startsMs.at(-1) : 0).toBeLessThan(MAX_START_MS);
}

const every = OPERATIONS.flatMap((operation) =>
  operation.steps.map((step) => ({ operation, step })),
);
const some = Array.from({ length: SOME }, () => random.pick(every));
/** `npm run security` takes all of a create besides. */
const ofCreate = IS_WHOLE_RUN ? every.filter(({ operation }) => operation.name === "create") : [];
const cases = isWhole ? every : [...ofCreate, ...some];

test.for(cases.map((one) => ({ ...one, title: `${one.operation.name} at ${one.step}` })))(
  "R2 killed during $title",
  async (one) => {
    const startMs = await killAt(stage, one);
    // An ordinary run shares the machine with whatever else runs there.
    expect(isWhole ? startMs : 0).toBeLessThan(MAX_START_MS);
  },
);

test.for(isWhole || IS_WHOLE_RUN ? RECOVERY : [random.pick(RECOVERY)])(
  "R2 killed again while it starts, at %s",
  async (step) => {
    const { home } = stage;
    const id = await make(home);
    await home.plan({ step: "kill.intent", action: "kill" });
    await home.call("DELETE", `/sandboxes/${id}`);
    await home.ended();
    await home.plan({ step, action: "kill" });
    await expect(home.start()).rejects.toThrow(/ended before it listened/);
    await home.ended();
    expect(await home.takeHit()).toBe(true);
    await restart();
    await stage.expectTruth();
    expect(await fateOf(home, id)).toBe("gone");
  },
);
