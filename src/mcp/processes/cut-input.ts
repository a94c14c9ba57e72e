/** Input of a process that a fault of the connection cut off, as by a pause. */

import { hasErrorCode } from "../../common/errors.ts";
import type { Capture } from "../../output/capture.ts";
import { toNote } from "../../output/quote.ts";
import type { ToolContext } from "../tool.ts";

const MISSED = "did not get all of its stdin";

/** Tells it in the output and in the log: the process may go on, and waits for the rest. */
export async function noteCutInput(
  error: unknown,
  capture: Capture,
  { state: { logs } }: Pick<ToolContext, "state">,
): Promise<void> {
  if (!isCutOff(error, capture)) return;
  const { sandboxId, processId, output } = capture;
  logs.note(sandboxId, processId, MISSED);
  await output.append("note", toNote(`${processId} ${MISSED}, which is still open`));
}

function isCutOff(error: unknown, { state }: Capture): boolean {
  if (state.kind === "lost") return true;
  return state.kind === "running" && hasErrorCode(error, "unavailable");
}
