/** Whether a process was killed by none of its callers, which most often means for memory. */

import type { Capture, ProcessView } from "../output/capture.ts";
import type { ToolContext } from "./tool.ts";

/** What a shell reports for a child that SIGKILL ended. */
const KILLED_EXIT_CODE = 137;
const LOOK_TIMEOUT_MS = 2_000;

/** The likely cause of an end by SIGKILL with the limit of memory; undefined for any other end. */
export async function memoryFact(
  process: ProcessView & Partial<Pick<Capture, "isKillSent">>,
  { service, suggest }: Pick<ToolContext, "service" | "suggest">,
): Promise<string | undefined> {
  const { state, sandboxId } = process;
  if (state.kind !== "ended" || process.isKillSent === true) return undefined;
  const isKilled = state.reason.startsWith("signal: killed") || state.exitCode === KILLED_EXIT_CODE;
  if (!isKilled) return undefined;
  const limit = await memoryLimit(sandboxId, service);
  const has = limit === undefined ? "" : `: the sandbox has ${limit} MB in all`;
  const look = suggest("get_metrics", "; get_metrics shows its use");
  return `killed, and not by this server: most likely out of memory${has}${look}`;
}

async function memoryLimit(
  sandboxId: string,
  service: ToolContext["service"],
): Promise<number | undefined> {
  try {
    return (await service.control.get(sandboxId, AbortSignal.timeout(LOOK_TIMEOUT_MS))).memoryMB;
  } catch {
    // The end is told all the same.
    return undefined;
  }
}
