/** What is said of a fault that no command has foreseen where it is one of the home. */

import { firstFault } from "./error-reasons.ts";
import { SandboxError, diskFullError, errorText, isCode } from "./errors.ts";

/** The same error unless the home is full, or not this user's to use. */
export function toHomeFault(error: unknown, home: string): unknown {
  if (error instanceof SandboxError) return error;
  const paths = pathsOf(error);
  const isOfHome = paths.some((path) => isOnWay(path, home));
  // What is written to an open file names no path, and most open files are in the home.
  if (isCode(error, "ENOSPC", "EDQUOT") && (isOfHome || paths.length === 0)) {
    return diskFullError(`disk of ${home}`, error);
  }
  if (!isCode(error, "EACCES", "EPERM", "EROFS") || !isOfHome) return error;
  return new SandboxError("failed_precondition", errorText(error), {
    cause: error,
    hint: `check that this user may write to ${home}, or choose another directory with --home`,
  });
}

/** As the system named them. */
function pathsOf(error: unknown): string[] {
  const fault = firstFault(error);
  if (!(fault instanceof Error)) return [];
  const named = [
    "path" in fault ? fault.path : undefined,
    "dest" in fault ? fault.dest : undefined,
  ];
  return named.filter((path) => typeof path === "string");
}

/** Whether it is the home, below it or above it. */
function isOnWay(path: string, home: string): boolean {
  return `${path}/`.startsWith(`${home}/`) || home.startsWith(`${path}/`);
}
