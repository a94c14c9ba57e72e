/**
 * A service that is killed at a step of a template build: the next start has no orphan layer, and the
 * build says how it ended. `npm run faults` kills at each step, `npm test` at one.
 */

import { expect, test } from "vitest";
import {
  BUILD_STEPS,
  playFaultBuild,
  requestFaultBuild,
  stateOfBuild,
} from "../../support/fault-build.ts";
import { listAll } from "../../support/fault-home.ts";
import { faultRun } from "../../support/fault-run.ts";
import { openFaultStage } from "../../support/fault-stage.ts";

const { isWhole, random } = faultRun();
const LIMIT_MS = 10 * 60_000;
const chosen = isWhole ? BUILD_STEPS : [random.pick(BUILD_STEPS)];

test("killed at each step of a build", { timeout: LIMIT_MS }, async () => {
  await using stage = await openFaultStage();
  const { home } = stage;
  for (const step of chosen) {
    const known = await listAll(home);
    const build = await requestFaultBuild(home);
    await home.plan({ step, action: "kill" });
    await playFaultBuild(home, build);
    expect(await home.takeHit(), step).toBe(true);
    await home.ended();
    await home.start();
    await stage.expectTruth();
    const at = BUILD_STEPS.indexOf(step);
    const isBegun = at >= BUILD_STEPS.indexOf("build.begun");
    const isReady = at >= BUILD_STEPS.indexOf("build.committed");
    const state = await stateOfBuild(home, build);
    expect(state?.status, step).toBe(isReady ? "ready" : isBegun ? "error" : "waiting");
    if (isBegun && !isReady) expect(state?.reason?.message).toContain("the service ended");
    await playFaultBuild(home, await requestFaultBuild(home));
    const { templateId } = build;
    expect((await listAll(home)).length, step).toBeGreaterThan(known.length);
    await stage.clear();
    expect((await home.call("DELETE", `/templates/${templateId}`))?.status).toBe(204);
    await stage.expectTruth();
  }
});
