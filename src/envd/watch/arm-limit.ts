/** How long a client waits for a watch while programs move the directories that are to be watched. */

import { SandboxError } from "../../common/errors.ts";

/** Without a directory that stayed at its place. */
const MAX_UNSETTLED_MS = 10_000;
/** In all: of a tree that grows as fast as it is watched there is no end. */
const MAX_ARM_MS = 300_000;

/**
 * Takes after each request whether it settled a directory.
 * @throws SandboxError failed_precondition when that took too long
 */
export function startArmLimit(now = () => performance.now()): (hasSettled: boolean) => void {
  const endMs = now() + MAX_ARM_MS;
  let untilMs = now() + MAX_UNSETTLED_MS;
  return (hasSettled) => {
    const nowMs = now();
    if (hasSettled) untilMs = nowMs + MAX_UNSETTLED_MS;
    if (nowMs < Math.min(untilMs, endMs)) return;
    throw new SandboxError("failed_precondition", "programs move its directories all the time");
  };
}
