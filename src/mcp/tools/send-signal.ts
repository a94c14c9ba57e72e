/** Tool: signals a process. */

import { hasErrorCode } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { hasEnded, type ProcessView, requirePid, timeLimit } from "../../output/capture.ts";
import { processIdInput, sandboxIdInput } from "../inputs.ts";
import { answered, answerLimit } from "../processes/answer-limit.ts";
import { findProcess } from "../processes/find-process.ts";
import { processHints, withHints } from "../replies/error-hints.ts";
import { expiryFact, stateFact } from "../replies/facts.ts";
import { textReply, type Reply } from "../replies/respond.ts";
import { DESTRUCTIVE, defineTool, type ToolContext } from "../tool.ts";

/** How long to wait for the effect. */
const EFFECT_WAIT_MS = 2_000;

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  process_id: processIdInput(),
  signal: z.enum(["SIGTERM", "SIGKILL"]).default("SIGTERM").describe("Which signal."),
});

type Params = z.output<typeof input>;

export const sendSignal = defineTool({
  name: "send_signal",
  title: "Signal a process",
  description:
    "Asks a process to end (SIGTERM) or ends it at once (SIGKILL), and returns its state up to " +
    "two seconds later. Only the process itself is signalled, not its children. For other signals, " +
    "or for whole groups, run kill with run_process.",
  toolset: "core",
  input,
  annotations: DESTRUCTIVE,
  async handler(params, context) {
    const { sandbox_id: sandboxId, process_id: processId, signal: name } = params;
    const pid = requirePid(processId);
    const { captures } = context.state;
    const known = captures.find(sandboxId, pid);
    if (known !== undefined && hasEnded(known)) return endedReply(known);
    const limit = answerLimit(context);
    const open = async () => {
      const opened = await context.attach(sandboxId);
      // A pause cut its stream; what the signal does is seen by another one.
      if (known?.state.kind === "lost") await findProcess(params, context, "send_signal");
      return opened;
    };
    const times = { limit, tool: "send_signal", context };
    const sandbox = await answered(open(), { ...times, outcome: `${name} was not sent` });
    const capture = captures.find(sandboxId, pid);
    if (capture !== undefined && hasEnded(capture)) return endedReply(capture);
    const send = async () => {
      const sent = sandbox.process.sendSignal(pid, name, limit);
      const outcome = `whether ${processId} got ${name} is not known`;
      return answered(withHints(sent, processHints(context.suggest)), { ...times, outcome });
    };
    try {
      await (capture !== undefined && name === "SIGKILL" ? capture.sendKill(send) : send());
    } catch (error) {
      if (isFinished(error)) return heldReply(params, context);
      // Another server may know how it ended.
      const isGone = hasErrorCode(error, "not_found");
      const stored = isGone ? await captures.recall(sandboxId, pid) : undefined;
      if (stored === undefined || !hasEnded(stored)) throw error;
      return endedReply(stored);
    }
    await capture?.ended(timeLimit(context.clock, EFFECT_WAIT_MS, context.signal));
    return textReply([
      `${name} sent to ${processId}`,
      capture === undefined ? unwatchedFact(params, context) : stateFact(capture.state),
      expiryFact(context, sandboxId),
    ]);
  },
});

/** Of a process whose end this server is not told of. */
function unwatchedFact({ process_id: processId }: Params, { suggest }: ToolContext): string {
  const page = `; get_process_output(process_id="${processId}") returns whether it runs`;
  return `whether it has ended is not known${suggest("get_process_output", page)}`;
}

function endedReply({ processId, state }: ProcessView): Reply<never> {
  return textReply([`${processId} had ended already`, stateFact(state)]);
}

/** How daemons answer for a process that has ended and whose output a child of it holds open. */
const FINISHED_TEXT = "os: process already finished";

function isFinished(error: unknown): boolean {
  return hasErrorCode(error, "internal") && error.message.includes(FINISHED_TEXT);
}

function heldReply(
  { sandbox_id: sandboxId, process_id: processId }: Params,
  context: ToolContext,
): Reply<never> {
  const pkill = context.suggest("run_process", "; end it with pkill in run_process");
  return textReply([
    `${processId} itself had ended already`,
    `a process that it started still holds its output${pkill}`,
    expiryFact(context, sandboxId),
  ]);
}
