/**
 * Limits that every process of a container has. The runtime inherits them: one that sets them on
 * others would need the right to raise limits, which not every root has.
 */

import type { LauncherStep } from "./launcher.ts";

/** By the kernel's numbers. */
const RLIMIT_CORE = "4";
const RLIMIT_NOFILE = "7";
const MAX_OPEN_FILES = "65536";

/** The steps before the runtime. */
export function limitSteps(): LauncherStep[] {
  return [
    ["limit", RLIMIT_CORE, "0"],
    ["limit", RLIMIT_NOFILE, MAX_OPEN_FILES],
  ];
}
