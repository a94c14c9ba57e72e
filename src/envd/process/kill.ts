/** Signals to processes that others start. */

import { isCode } from "../../common/errors.ts";

/** Does nothing for a process that has just ended: the report of it is on its way. */
export function killProcess(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isCode(error, "ESRCH")) throw error;
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !isCode(error, "ESRCH");
  }
}
