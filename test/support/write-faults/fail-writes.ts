/** Runs operations with faults of single writes, all of them or some, and tells how calls were answered. */

import { expect, type TestContext } from "vitest";
import { tellCells } from "../cells.ts";
import { faultRun } from "../fault-run.ts";
import type { FaultPlan, Writes } from "./faults.ts";
import type { WriteOperation } from "./operations.ts";
import { openWriteStage, plansOf } from "./write-stage.ts";

const { isWhole, random } = faultRun();
/** Of each operation, where not all are run. */
const SOME_FAULTS = 4;
/** Between two starts of the service. */
const BATCH = 8;

export const LIMIT_MS = isWhole ? 6 * 3_600_000 : 1_800_000;

/** A place that is written to often counts no more than another one. */
export function chooseFaults(writes: Writes, count: number): readonly FaultPlan[] {
  return Array.from({ length: count }, () => random.pick(plansOf([random.pick(writes)])));
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

/** All that was found, each with a fault of a write that showed it. */
export async function failAll(
  flags: readonly string[],
  operations: readonly WriteOperation[],
  context: Pick<TestContext, "task">,
): Promise<readonly (readonly [string, string])[]> {
  await using stage = await openWriteStage(flags);
  const found = new Map<string, string>();
  let hits = 0;
  for (const operation of operations) {
    const report: Report = { found, counts: new Map(), hits: 0 };
    const writes = await stage.count(operation);
    const plans = isWhole ? plansOf(writes) : chooseFaults(writes, SOME_FAULTS);
    for (const [index, plan] of plans.entries()) {
      const { isHit, status, faults } = await stage.fail(operation, plan);
      noteCase(report, plan, { isHit, outcome: String(status ?? "no answer") });
      const isLast = index + 1 === plans.length;
      const later = isLast || index % BATCH === BATCH - 1 ? await stage.restart() : [];
      for (const fault of [...later, ...faults]) {
        found.set(`${operation.name}: ${fault}`, JSON.stringify(plan));
      }
    }
    tell(operation.name, { report, writes });
    hits += report.hits;
  }
  expect(hits).toBeGreaterThan(0);
  tellCells(context, hits);
  return [...found];
}
