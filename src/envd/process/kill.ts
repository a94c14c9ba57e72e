/** Signals to processes that others start. */

import { isCode } from "../../common/errors.ts";

/**
 * Does nothing for a process that has just ended, of which the report is on its way, nor for one that
 * has become another user's where the daemon is not root.
 */
export function killProcess(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isCode(error, "ESRCH", "EPERM")) throw error;
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !isCode(error, "ESRCH");
  }
}
