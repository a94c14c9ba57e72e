/** The steps of creates and ends of sandboxes that are Pods; the runs on a real cluster kill a front at each. */

import type { StepName } from "../../src/common/steps.ts";
import { IMAGE_STEPS } from "../support/faults/fault-cases.ts";

export const POD_STEPS = {
  create: ["pod.recorded", "pod.made", "pod.running", "pod.told", "pod.committed"],
  restrict: ["pod.restricted"],
  claim: ["pod.claimed"],
  once: ["creation.opened", "creation.bound", "creation.kept"],
  kill: ["pod.ending", "pod.removed", "pod.erased"],
  snapshot: IMAGE_STEPS.take,
  fork: [...IMAGE_STEPS.take, ...IMAGE_STEPS.fork],
  remove: IMAGE_STEPS.remove,
  pause: [...IMAGE_STEPS.pause.slice(0, 2), ...IMAGE_STEPS.take, ...IMAGE_STEPS.pause.slice(2)],
  resume: ["pod.resuming", "pod.made", "pod.running", "pod.told", "pod.resumed"],
} as const satisfies Readonly<Record<string, readonly StepName[]>>;
