/** Tool: signals a process. */

import { z } from "../../common/schema.ts";
import { requirePid, timeLimit } from "../../output/capture.ts";
import { processHints, withHints } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { stateFact } from "../facts.ts";
import { processIdInput, sandboxIdInput } from "../inputs.ts";
import { textReply } from "../respond.ts";
import { DESTRUCTIVE, defineTool } from "../tool.ts";

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
    if (capture?.state.kind === "ended" || capture?.state.kind === "timed_out") {
      return textReply([`${processId} had ended already`, stateFact(capture.state)]);
    }
    const sandbox = await context.attach(sandboxId);
    if (capture !== undefined && name === "SIGKILL") capture.isKillSent = true;
    const sending = sandbox.process.sendSignal(pid, name, context.signal);
    await withHints(sending, processHints(context.suggest));
    await capture?.ended(timeLimit(context.clock, EFFECT_WAIT_MS, context.signal));
    return textReply([
      `${name} sent to ${processId}`,
      capture === undefined ? undefined : stateFact(capture.state),
      expiryFact(context, sandboxId),
    ]);
  },
});
