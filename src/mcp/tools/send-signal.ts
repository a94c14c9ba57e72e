/** Tool: signals a process. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import {
  requirePid,
  timeLimit,
  type ProcessState,
  type ProcessView,
} from "../../output/capture.ts";
import { processHints, withHints } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { stateFact } from "../facts.ts";
import { processIdInput, sandboxIdInput } from "../inputs.ts";
import { textReply, type Reply } from "../respond.ts";
import { DESTRUCTIVE, defineTool } from "../tool.ts";

const ENDED: ReadonlySet<ProcessState["kind"]> = new Set(["ended", "timed_out", "unwatched"]);

/** How long to wait for the effect. */
const EFFECT_WAIT_MS = 2_000;

export const sendSignal = defineTool({
  name: "send_signal",
  title: "Signal a process",
  description:
    "Asks a process to end (SIGTERM) or ends it at once (SIGKILL), and returns its state up to " +
    "two seconds later. Only the process itself is signalled, not its children. For other signals, " +
    "or for whole groups, run kill with run_process.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    process_id: processIdInput(),
    signal: z.enum(["SIGTERM", "SIGKILL"]).default("SIGTERM").describe("Which signal."),
  }),
  annotations: DESTRUCTIVE,
  async handler({ sandbox_id: sandboxId, process_id: processId, signal: name }, context) {
    const pid = requirePid(processId);
    const { captures } = context.state;
    const capture = captures.find(sandboxId, pid);
    if (capture !== undefined && ENDED.has(capture.state.kind)) return endedReply(capture);
    const sandbox = await context.attach(sandboxId);
    if (capture !== undefined && name === "SIGKILL") capture.isKillSent = true;
    try {
      const sending = sandbox.process.sendSignal(pid, name, context.signal);
      await withHints(sending, processHints(context.suggest));
    } catch (error) {
      // Another server may know how it ended.
      const isGone = error instanceof SandboxError && error.code === "not_found";
      const stored = isGone ? await captures.recall(sandboxId, pid) : undefined;
      if (stored === undefined || !ENDED.has(stored.state.kind)) throw error;
      return endedReply(stored);
    }
    await capture?.ended(timeLimit(context.clock, EFFECT_WAIT_MS, context.signal));
    return textReply([
      `${name} sent to ${processId}`,
      capture === undefined ? undefined : stateFact(capture.state),
      expiryFact(context, sandboxId),
    ]);
  },
});

function endedReply({ processId, state }: ProcessView): Reply<never> {
  return textReply([`${processId} had ended already`, stateFact(state)]);
}
