/** Whether a process whose stream broke is still the one that has its pid. */

import type { Capture } from "./capture.ts";

/**
 * A sandbox that starts again without its memory numbers its processes from the beginning: another
 * program may have the pid. True only where that is seen.
 */
export async function isReplaced(
  { sandbox, pid, command }: Capture,
  signal: AbortSignal,
): Promise<boolean> {
  if (command === undefined) return false;
  // A sandbox that does not answer this answers no other call about the process either.
  const running = await sandbox.process.list(signal).catch(() => []);
  const found = running.find((process) => process.pid === pid);
  return found !== undefined && !isSame(found.cmd, command);
}

/** Services of other makers may list no command, one without its arguments, or one before it. */
function isSame(listed: string, command: string): boolean {
  return listed.endsWith(command) || command.startsWith(listed);
}
