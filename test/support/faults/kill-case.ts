/** One case: the service is killed at a step of an operation, and started anew it has lost nothing. */

import { expect } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { fateOf, KEPT, type Operation } from "./fault-cases.ts";
import { listAll } from "./fault-home.ts";
import type { FaultStage } from "./fault-stage.ts";

export interface KillCase {
  readonly operation: Operation;
  readonly step: StepName;
}

/** Returns how long the start after it took, in milliseconds. */
export async function killAt(stage: FaultStage, { operation, step }: KillCase): Promise<number> {
  const { home } = stage;
  const id = await operation.prepare(home);
  const known = (await listAll(home)).map(({ sandboxID }) => sandboxID);
  await home.plan({ step, action: "kill" });
  const answers = [undefined, ...(operation.isAnsweredFirst === true ? [204] : [])];
  expect(answers).toContain(await operation.act(home, id));
  await home.ended();
  expect(await home.takeHit()).toBe(true);
  await home.start();
  const startMs = home.startsMs.at(-1) ?? 0;
  await stage.expectTruth();
  const counts = operation.steps.indexOf(step) >= operation.steps.indexOf(operation.countsFrom);
  const wanted = counts ? operation.after : operation.before;
  await expect.poll(() => fateOf(home, id)).toBe(wanted);
  const fresh = (await listAll(home)).filter(({ sandboxID }) => !known.includes(sandboxID));
  expect(fresh.length).toBeLessThanOrEqual(counts ? operation.mayMake : 0);
  if (wanted === "gone") return startMs;
  await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
  expect(await home.enter(id, KEPT.path)).toMatchObject({ status: 200, body: KEPT.text });
  return startMs;
}
