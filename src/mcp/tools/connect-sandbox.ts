/** Tool: resumes a paused sandbox, or extends a running one. */

import { z } from "../../common/schema.ts";
import { lifetimeInput, sandboxIdInput } from "../inputs.ts";
import { freeHint, onOptionalRoute, withHints } from "../replies/error-hints.ts";
import { expiryField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { IDEMPOTENT, defineTool, type ToolContext } from "../tool.ts";

export const connectSandbox = defineTool({
  name: "connect_sandbox",
  title: "Connect to a sandbox",
  description:
    "Resumes a paused sandbox with all its files, or extends the life of a running one to at " +
    "least timeout_seconds from now, never shortening it. Use it after an error that the sandbox " +
    "is paused. Output streams from before a pause are cut.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    timeout_seconds: lifetimeInput(),
    keep_memory: z.boolean().default(true).describe("Whether processes go on."),
  }),
  output: z.object({
    sandbox_id: z.string(),
    was_resumed: z.boolean().optional(),
    expires_at: z.string().optional(),
    note: z.string().optional(),
  }),
  annotations: IDEMPOTENT,
  async handler({ sandbox_id: sandboxId, timeout_seconds: timeout, ...params }, context) {
    const { service, state, signal, suggest } = context;
    const request = { timeout, ...(!params.keep_memory && ({ memory: false } as const)) };
    const connecting = service.control.connect(sandboxId, request, signal);
    const { sandbox, wasResumed } = await onOptionalRoute(
      withHints(connecting, {
        resource_exhausted: freeHint(suggest),
        failed_precondition: WITHOUT_MEMORY,
      }),
      `The sandbox service cannot connect.${suggest("set_timeout", " set_timeout extends a life.")}`,
      () => service.control.get(sandboxId, signal),
    );
    state.logs.open(sandbox.sandboxID);
    // What programs write from now on is taken, not only from the next question on.
    if (wasResumed !== false) state.track(reattach(sandbox.sandboxID, context));
    return recordReply({
      sandbox_id: sandbox.sandboxID,
      ...(wasResumed === undefined ? { note: REPEATED_NOTE } : { was_resumed: wasResumed }),
      ...expiryField(context, sandbox.sandboxID),
    });
  },
});

/** A state that changes has a hint of its own: what is refused for good is memory, as after an update. */
const WITHOUT_MEMORY =
  "Call connect_sandbox with keep_memory=false: its processes are lost, its files are kept.";

const REPEATED_NOTE =
  "it runs; whether it was paused before is not known, because the call broke off and was repeated";

/** Watches again what a pause cut off and runs on. */
async function reattach(sandboxId: string, { service, state, log }: ToolContext): Promise<void> {
  const { captures } = state;
  // One whose stream is known to be broken may still be lost.
  const running = captures.inState(sandboxId, "running");
  await Promise.all(running.map((capture) => capture.whole(state.signal)));
  const lost = captures.inState(sandboxId, "lost");
  if (lost.length === 0) return;
  const sandbox = await service.attach(sandboxId, state.signal);
  for (const { pid } of lost) {
    try {
      // A watch would wake a sandbox that was paused again.
      const { state: current } = await service.control.get(sandboxId, state.signal);
      if (current !== "running") return;
      await captures.attach(sandbox, pid);
    } catch (error) {
      // Who asks for the process learns why.
      log.debug({ op: "process.attach", sandboxId, err: error });
    }
  }
}
