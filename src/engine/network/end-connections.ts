/** The connections of programs whose container has lost its link. */

import { readStartTicks } from "../host/process-stat.ts";
import { runProgram } from "../host/run-program.ts";
import type { ContainerRecord } from "../oci/container-record.ts";

const KILL = 'exec ss --kill --tcp --no-header src "$1" > /dev/null';

/**
 * Ends the TCP connections of an address of a container with an error for its programs, which would
 * wait for them for good. Best effort: a kernel without INET_DIAG_DESTROY leaves them.
 */
export async function endConnections(
  { pid, startTicks }: Pick<ContainerRecord, "pid" | "startTicks">,
  address: string,
): Promise<void> {
  if (readStartTicks(pid) !== startTicks) return;
  const entered = [`--net=/proc/${pid}/ns/net`, "--", "sh", "-c", KILL, "sh", address];
  await runProgram(["nsenter", ...entered]).catch(() => undefined);
}
