/** Tells of what happens in a cgroup, where the kernel has a watch left for it. */

import { watch, type FSWatcher } from "node:fs";
import { isCode } from "../../common/errors.ts";

/** The user has too many watchers, too many watched files, or the kernel no memory for another one. */
const EXHAUSTED = ["EMFILE", "ENOSPC", "ENOMEM"] as const;

/** Undefined where there is none left, as beside many containers and editors: who asks looks by a timer then. */
export function watchGroup(file: string, onChange: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(file, { persistent: false }, onChange);
    // The folder goes with the container; a watch that fails otherwise leaves the timer.
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch (error) {
    if (isCode(error, ...EXHAUSTED)) return undefined;
    throw error;
  }
}
