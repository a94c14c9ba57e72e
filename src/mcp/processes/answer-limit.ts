/** How long a call about a process waits for a sandbox that does not answer. */

import { SandboxError } from "../../common/errors.ts";
import { orCanceled } from "../../common/or-canceled.ts";
import { timeLimit } from "../../output/capture.ts";
import type { ToolContext } from "../tool.ts";

/** Traffic may have to wake the sandbox; a host's own limit, 60 s in most, comes later. */
const MAX_ANSWER_MS = 40_000;

/** Fires when a sandbox had the time to answer, or the call is cancelled. */
export function answerLimit({ clock, signal }: Pick<ToolContext, "clock" | "signal">): AbortSignal {
  return timeLimit(clock, MAX_ANSWER_MS, signal);
}

export interface AnswerOptions {
  /** Of `answerLimit`. */
  readonly limit: AbortSignal;
  /** What has come of the call then. */
  readonly outcome: string;
  /** The tool that is to be called again. */
  readonly tool: string;
  readonly context: Pick<ToolContext, "signal">;
}

/**
 * What comes of the work, which is not ended by the limit.
 * @throws SandboxError as the work did; deadline_exceeded with the outcome once the limit fired.
 */
export async function answered<T>(work: Promise<T>, options: AnswerOptions): Promise<T> {
  const { limit, outcome, tool, context } = options;
  try {
    return await orCanceled(work, limit);
  } catch (error) {
    if (!limit.aborted || context.signal.aborted) throw error;
    const message = `the sandbox does not answer: ${outcome}`;
    const hint = `Call ${tool} again.`;
    throw new SandboxError("deadline_exceeded", message, { cause: error, hint });
  }
}
