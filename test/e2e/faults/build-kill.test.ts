/**
 * A service that is killed at a step of a template build: the next start has no orphan layer, and the
 * build says how it ended.
 */

import { expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import {
  BUILD_STEPS,
  playFaultBuild,
  requestFaultBuild,
  stateOfBuild,
} from "../../support/faults/fault-build.ts";
import { listAll } from "../../support/faults/fault-home.ts";
import { openFaultStage } from "../../support/faults/fault-stage.ts";

const LIMIT_MS = 5 * 60_000;
const ENDED = "the service ended while the template was being built";

/** What the next start says of the build. */
function expected(step: StepName) {
  const at = BUILD_STEPS.indexOf(step);
  if (at >= BUILD_STEPS.indexOf("build.committed")) return { status: "ready" };
  if (at < BUILD_STEPS.indexOf("build.begun")) return { status: "waiting" };
  return { status: "error", reason: { message: ENDED, step: "finalize" } };
}

test.for(BUILD_STEPS)("R2 killed at %s of a build", { timeout: LIMIT_MS }, async (step) => {
  await using stage = await openFaultStage();
  const { home } = stage;
  const known = await listAll(home);
  const build = await requestFaultBuild(home);
  await home.plan({ step, action: "kill" });
  await playFaultBuild(home, build);
  expect(await home.takeHit()).toBe(true);
  await home.ended();
  await home.start();
  await stage.expectTruth();
  expect(await stateOfBuild(home, build)).toEqual(expected(step));
  await playFaultBuild(home, await requestFaultBuild(home));
  expect((await listAll(home)).length).toBeGreaterThan(known.length);
  await stage.clear();
  expect((await home.call("DELETE", `/templates/${build.templateId}`))?.status).toBe(204);
  await stage.expectTruth();
});
