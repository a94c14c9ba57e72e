/** The output of a process whose server is gone, continued by this one. */

import type { Sandbox } from "../client/envd.ts";
import type { Logger } from "../common/log.ts";
import type { Spools } from "../spool/spools.ts";
import { Capture, formatProcessId } from "./capture.ts";
import { PROCESS_LIMITS, ProcessOutput } from "./process-output.ts";
import { canContinue } from "./stored-process.ts";

/**
 * Continues the spool that a dead server left, or any that lost the process, which still runs; undefined
 * where there is none, and on a disk that takes nothing: then the process is watched in memory alone.
 */
export async function takeOverOutput(
  { spools, log }: { readonly spools: Spools; readonly log: Logger },
  sandbox: Sandbox,
  pid: number,
): Promise<Capture | undefined> {
  const found = await spools.find({ sandboxId: sandbox.id, name: formatProcessId(pid) });
  if (found === undefined || !canContinue(found)) return undefined;
  try {
    const taken = await spools.takeOver(found.place, PROCESS_LIMITS);
    if (taken === undefined) return undefined;
    const output = new ProcessOutput(taken.writer, taken.extent);
    const startedAtMs = found.place.createdAtMs;
    return new Capture({ sandbox, pid, startedAtMs, isAttached: found.isLate, output });
  } catch (error) {
    log.warn({ op: "spool.take", sandboxId: sandbox.id, err: error }, "output is not continued");
    return undefined;
  }
}
