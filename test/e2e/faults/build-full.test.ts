/** The disk of the home becomes full at a step of a template build: it says so, and the next one works. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import {
  playFaultBuild,
  requestFaultBuild,
  stateOfBuild,
} from "../../support/faults/fault-build.ts";
import {
  LEFT_BYTES,
  openSmallDiskStage,
  type SmallDiskStage,
} from "../../support/faults/small-disk-stage.ts";

const LIMIT_MS = 10 * 60_000;
const STEPS: readonly StepName[] = ["build.stepped", "build.cached", "squash.listed"];
const CLEAR = /^ready: $|^error: .*no space left.* \(delete snapshots/;

let stage: SmallDiskStage;

beforeAll(async () => {
  stage = await openSmallDiskStage();
});

afterEach(() => stage.clear());

afterAll(() => stage[Symbol.asyncDispose]());

test.for(STEPS)("no space from %s of a build on", { timeout: LIMIT_MS }, async (step) => {
  const { home, disk } = stage;
  const build = await requestFaultBuild(home);
  await home.plan({ step, action: "hold" });
  const played = playFaultBuild(home, build);
  await home.hit();
  await disk.fill(LEFT_BYTES);
  await home.release();
  await played;
  const state = await stateOfBuild(home, build);
  // What is written already may be enough for all that is still to be written.
  expect(`${state?.status}: ${state?.reason?.message ?? ""}`).toMatch(CLEAR);
  await disk.free();
  await stage.expectTruth();
  const next = await requestFaultBuild(home);
  await playFaultBuild(home, next);
  expect(await stateOfBuild(home, next)).toMatchObject({ status: "ready" });
});
