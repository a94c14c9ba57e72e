/**
 * The service is killed at each named step of each operation; started anew, it has lost nothing
 * that counted, and nothing is left over. `npm run faults` takes every step, an ordinary
 * run some, `npm run security` all of a create.
 */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { fateOf, KEPT, OPERATIONS, RECOVERY, type Operation } from "../../support/fault-cases.ts";
import { listAll, make } from "../../support/fault-home.ts";
import { faultRun } from "../../support/fault-run.ts";
import { openFaultStage, type FaultStage } from "../../support/fault-stage.ts";
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

function hasCounted({ steps, countsFrom }: Operation, step: StepName): boolean {
  return steps.indexOf(step) >= steps.indexOf(countsFrom);
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
  async ({ operation, step }) => {
    const { home } = stage;
    const id = await operation.prepare(home);
    const known = (await listAll(home)).map(({ sandboxID }) => sandboxID);
    await home.plan({ step, action: "kill" });
    const answers = [undefined, ...(operation.isAnsweredFirst === true ? [204] : [])];
    expect(answers).toContain(await operation.act(home, id));
    await home.ended();
    expect(await home.takeHit()).toBe(true);
    await restart();
    await stage.expectTruth();
    const wanted = hasCounted(operation, step) ? operation.after : operation.before;
    await expect.poll(() => fateOf(home, id)).toBe(wanted);
    const fresh = (await listAll(home)).filter(({ sandboxID }) => !known.includes(sandboxID));
    expect(fresh.length).toBeLessThanOrEqual(hasCounted(operation, step) ? operation.mayMake : 0);
    if (wanted === "gone") return;
    await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
    expect(await home.enter(id, KEPT.path)).toMatchObject({ status: 200, body: KEPT.text });
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
