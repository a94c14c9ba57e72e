/** A process that a tool names, whichever client watches it. */

import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { formatProcessId, requirePid, type ProcessView } from "../../output/capture.ts";
import { processHints, withHints } from "../replies/error-hints.ts";
import type { ToolContext } from "../tool.ts";
import { answered, answerLimit } from "./answer-limit.ts";

export interface NamedProcess {
  readonly sandbox_id: string;
  readonly process_id: string;
}

/**
 * The process as this or another server watches it; one without a reader is watched from now on.
 * @param tool the one that asks.
 * @throws SandboxError not_found, invalid_argument; deadline_exceeded where nothing is known of a
 * process whose sandbox does not answer.
 */
export async function findProcess(
  { sandbox_id: sandboxId, process_id: processId }: NamedProcess,
  context: ToolContext,
  tool: string,
): Promise<ProcessView> {
  const pid = requirePid(processId);
  const { captures } = context.state;
  const known = captures.find(sandboxId, pid);
  if (known !== undefined && known.state.kind !== "lost") return known;
  const stored = await captures.recall(sandboxId, pid);
  // What this server lost another one can have watched to its end.
  const isOther = known === undefined || stored?.isOwn === false;
  if (stored?.isUnwatched === false && isOther) return stored;
  let isReached = false;
  const attach = async () => {
    const sandbox = await context.attach(sandboxId);
    isReached = true;
    return withHints(captures.attach(sandbox, pid), processHints(context.suggest));
  };
  const outcome = `nothing is known of ${formatProcessId(pid)}`;
  try {
    return await answered(attach(), { limit: answerLimit(context), outcome, tool, context });
  } catch (error) {
    const isEnded = hasErrorCode(error, "not_found");
    // The output so far is returned in place of the error.
    if (known !== undefined) {
      const endedAtMs = known.endedAtMs ?? context.clock.now();
      if (isReached && isEnded) known.finish({ kind: "unwatched" }, endedAtMs);
      return known;
    }
    if (stored === undefined || !(error instanceof SandboxError)) throw error;
    stored.giveUp(isEnded ? { kind: "unwatched" } : { kind: "lost", error });
    return stored;
  }
}
