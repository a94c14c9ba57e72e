/** The steps of creates and ends of sandboxes that are Pods; the runs on a real cluster kill a front at each. */

import type { StepName } from "../../src/common/steps.ts";

export const POD_STEPS = {
  create: ["pod.recorded", "pod.made", "pod.running", "pod.told", "pod.committed"],
  restrict: ["pod.restricted"],
  claim: ["pod.claimed"],
  once: ["creation.opened", "creation.bound", "creation.kept"],
  kill: ["pod.ending", "pod.removed", "pod.erased"],
} as const satisfies Readonly<Record<string, readonly StepName[]>>;
