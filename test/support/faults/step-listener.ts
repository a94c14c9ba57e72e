/**
 * Preloaded into the built program: does to it, at the step that a file names, what the file says.
 * The file is renamed when its moment has come, so that the test knows that it came.
 */

import { subscribe } from "node:diagnostics_channel";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { StepMessage, StepName } from "../../../src/common/steps.ts";

/** What is to happen, as JSON. */
export interface StepPlan {
  readonly step: StepName;
  readonly action: "kill" | "fail" | "hold";
  /** The first time is 1. */
  readonly time?: number;
}

/** The names beside the file. */
export const PLAN_ENDS = { hit: ".hit", release: ".release" } as const;
export const PLAN_VARIABLE = "STEP_PLAN";

const POLL_MS = 5;
const MAX_HOLD_MS = 30_000;

const path = process.env[PLAN_VARIABLE] ?? "";
let seen = 0;

function readPlan(): StepPlan | undefined {
  // A test that plans nothing has no file.
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}

async function hold(): Promise<void> {
  const endMs = performance.now() + MAX_HOLD_MS;
  while (!existsSync(path + PLAN_ENDS.release) && performance.now() < endMs) await delay(POLL_MS);
}

function onStep(message: StepMessage): void {
  const plan = readPlan();
  if (plan === undefined || plan.step !== message.name) return;
  seen += 1;
  if (seen < (plan.time ?? 1)) return;
  seen = 0;
  renameSync(path, path + PLAN_ENDS.hit);
  if (plan.action === "kill") process.kill(process.pid, "SIGKILL");
  message.hold = plan.action === "hold" ? hold() : Promise.reject(new Error("planned fault"));
}

// The channel of the program carries this type alone.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
if (path !== "") subscribe("sandbox-mcp:step", (message) => onStep(message as StepMessage));
