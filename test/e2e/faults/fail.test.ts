/**
 * At each named step of each operation something fails, or takes its time while somebody else wants
 * the same sandbox gone. The service goes on, and what it says is true.
 */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { fateOf, OPERATIONS, type Fate, type Operation } from "../../support/faults/fault-cases.ts";
import { listAll } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openFaultStage, type FaultStage } from "../../support/faults/fault-stage.ts";
import { isGvisor } from "../../support/level.ts";

const { isWhole, random } = faultRun();
/** In an ordinary run. */
const SOME = 4;

/** Between these and what is before them nothing happens that could fail. */
const SAFE: ReadonlySet<StepName> = new Set([
  "kill.cut",
  "create.committed",
  "pause.committed",
  "resume.committed",
  "snapshot.committed",
  "fork.started",
  "fork.released",
  "template.removed",
  "volume.made",
]);

let stage: FaultStage;

beforeAll(async () => {
  stage = await openFaultStage();
});

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

interface Case {
  readonly operation: Operation;
  readonly step: StepName;
  readonly title: string;
}

const every: readonly Case[] = OPERATIONS.flatMap((operation) =>
  operation.steps.map((step) => ({ operation, step, title: `${operation.name} at ${step}` })),
);

function choose(cases: readonly Case[]): readonly Case[] {
  return isWhole ? cases : Array.from({ length: SOME }, () => random.pick(cases));
}

/**
 * An end goes on to its end; a halt and a pause at the end of a life are tried again; what is halted
 * does not run on; all else is as it was.
 */
function fateAfterFault({ name, before, after }: Operation, step: StepName): Fate {
  if (after === "gone" || step === "pause.halted") return "gone";
  if (name === "pause at the end of its time" || step.startsWith("halt.")) return after;
  return before;
}

/** A copy that fails with the memory of a kernel of its own is made again, with files alone. */
function isRepeated(step: StepName): boolean {
  return isGvisor && /^(?:layer|copy|clone)\./.test(step);
}

test.for(choose(every.filter(({ step }) => !SAFE.has(step))))(
  "a fault during $title",
  async ({ operation, step }) => {
    const { home } = stage;
    const id = await operation.prepare(home);
    const known = (await listAll(home)).map(({ sandboxID }) => sandboxID);
    await home.plan({ step, action: "fail" });
    await operation.act(home, id);
    await home.hit();
    await expect.poll(() => fateOf(home, id)).toBe(fateAfterFault(operation, step));
    await stage.expectTruth();
    const fresh = (await listAll(home)).filter(({ sandboxID }) => !known.includes(sandboxID));
    const failed = isRepeated(step) ? 0 : 1;
    expect(fresh.length).toBeLessThanOrEqual(Math.max(operation.mayMake - failed, 0));
  },
);

test.for(choose(every))("a kill that meets $title", async ({ operation, step }) => {
  const { home } = stage;
  const id = await operation.prepare(home);
  await home.plan({ step, action: "hold" });
  const act = operation.act(home, id);
  await home.hit();
  const kill = home.call("DELETE", `/sandboxes/${id}`);
  // Whatever is held, others are answered meanwhile.
  expect((await listAll(home)).length).toBeGreaterThan(0);
  await home.release();
  const [, killed] = await Promise.all([act, kill]);
  expect(killed?.status).toBeLessThan(500);
  await expect.poll(() => fateOf(home, id)).toBe("gone");
  await stage.clear();
  await stage.expectTruth();
});
