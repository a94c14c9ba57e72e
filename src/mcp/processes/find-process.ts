/** A process that a tool names, whichever client watches it. */

import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { requirePid, type ProcessView } from "../../output/capture.ts";
import { processHints, withHints } from "../replies/error-hints.ts";
import type { ToolContext } from "../tool.ts";

/**
 * The process as this or another server watches it; one without a reader is watched from now on.
 * @throws SandboxError not_found, invalid_argument
 */
export async function findProcess(
  sandboxId: string,
  processId: string,
  context: ToolContext,
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
  try {
    const sandbox = await context.attach(sandboxId);
    isReached = true;
    return await withHints(captures.attach(sandbox, pid), processHints(context.suggest));
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
