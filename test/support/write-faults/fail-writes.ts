/** Runs operations with faults of single writes, many or some, and tells how calls were answered. */

import { expect, type TestContext } from "vitest";
import { faultRun } from "../faults/fault-run.ts";
import { tellCells } from "../run/cells.ts";
import type { FaultPlan, Writes } from "./faults.ts";
import type { WriteOperation } from "./operations.ts";
import { openWriteStage, plansOf, type WriteStage } from "./write-stage.ts";

const { isWhole, random } = faultRun();
/** Of each operation, where only some are run: these, or four. */
const SOME = process.env["FAULT_SOME"];
const SOME_FAULTS = Number(SOME ?? 4);
/** Of a place that is written to more often, the first time, the last and some between are run. */
const MAX_TIMES = Number(process.env["FAULT_TIMES"] ?? 4);
/** The places to run, where not all are: a part of what a finding names. */
const PLACE = process.env["FAULT_PLACE"] ?? "";
/** Between two starts of the service. */
const BATCH = 8;

export const LIMIT_MS = isWhole ? 6 * 3_600_000 : 1_800_000;

/** A place that is written to often counts no more than another one. */
export function chooseFaults(writes: Writes, count: number): readonly FaultPlan[] {
  return Array.from({ length: count }, () => random.pick(plansOf([random.pick(writes)])));
}

/** Each place in each way, and not each of many times. */
function mostFaults(writes: Writes): readonly FaultPlan[] {
  return writes.flatMap((place) => {
    if (!place.place.includes(PLACE)) return [];
    const times = Array.from({ length: place.times }, (_none, index) => index + 1);
    while (times.length > MAX_TIMES) {
      times.splice(1 + random.below(Math.max(1, times.length - 2)), 1);
    }
    return plansOf([place]).filter(({ time }) => times.includes(time));
  });
}

/** What was found, each with the plan that showed it, and how calls were answered. */
export interface Report {
  readonly found: Map<string, string>;
  readonly counts: Map<string, number>;
  hits: number;
}

export function tell(name: string, { report, writes }: { report: Report; writes: Writes }): void {
  const total = writes.reduce((sum, { times }) => sum + times, 0);
  const counts = [...report.counts].map(([key, count]) => `${key}: ${count}`).toSorted();
  process.stdout.write(`${name}: ${total} writes, ${report.hits} faults; ${counts.join(", ")}\n`);
}

export function noteCase(
  report: Report,
  { kind }: FaultPlan,
  { isHit, outcome }: { readonly isHit: boolean; readonly outcome: string },
): void {
  if (isHit) report.hits += 1;
  const key = `${kind} ${isHit ? outcome : "not met"}`;
  report.counts.set(key, (report.counts.get(key) ?? 0) + 1);
}

export interface Failer extends AsyncDisposable {
  /** All that was found, each with a fault of a write that showed it. */
  failAll(
    operation: WriteOperation,
    context: Pick<TestContext, "task">,
  ): Promise<readonly (readonly [string, string])[]>;
}

/** The operations have a home in common, unless one of them ended before its time. */
export function openFailer(flags: readonly string[]): Failer {
  let opened: WriteStage | undefined;
  const close = async () => {
    const stage = opened;
    opened = undefined;
    await stage?.[Symbol.asyncDispose]();
  };
  return {
    async failAll(operation, context) {
      opened ??= await openWriteStage(flags);
      try {
        return await failWrites(opened, operation, context);
      } catch (error) {
        await close();
        throw error;
      }
    },
    [Symbol.asyncDispose]: close,
  };
}

async function failWrites(
  stage: WriteStage,
  operation: WriteOperation,
  context: Pick<TestContext, "task">,
): Promise<readonly (readonly [string, string])[]> {
  const report: Report = { found: new Map(), counts: new Map(), hits: 0 };
  const writes = await stage.count(operation);
  const plans =
    isWhole && SOME === undefined ? mostFaults(writes) : chooseFaults(writes, SOME_FAULTS);
  for (const [index, plan] of plans.entries()) {
    const { isHit, status, faults } = await stage.fail(operation, plan);
    noteCase(report, plan, { isHit, outcome: String(status ?? "no answer") });
    const isLast = index + 1 === plans.length;
    const isBatch = isLast || index % BATCH === BATCH - 1;
    const later = isBatch ? await stage.restart() : [];
    if (isBatch) process.stdout.write(`${operation.name}: ${index + 1} of ${plans.length}\n`);
    for (const fault of [...later, ...faults]) {
      const shown = JSON.stringify(plan);
      report.found.set(fault, shown);
      // A run of all operations takes hours.
      process.stdout.write(`${operation.name}: ${fault} ${shown}\n`);
    }
  }
  tell(operation.name, { report, writes });
  expect(report.hits).toBeGreaterThan(0);
  tellCells(context, report.hits);
  return [...report.found];
}
