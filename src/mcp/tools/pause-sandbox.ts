/** Tool: pauses a sandbox. */

import { z } from "../../common/schema.ts";
import { sandboxIdInput } from "../inputs.ts";
import { onOptionalRoute } from "../replies/error-hints.ts";
import { endOf } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { IDEMPOTENT, defineTool, type ToolContext } from "../tool.ts";

export const pauseSandbox = defineTool({
  name: "pause_sandbox",
  title: "Pause a sandbox",
  description:
    "Freezes a running sandbox: its files stay, its processes are frozen, and its expiry no " +
    "longer counts. Resume it with connect_sandbox. Use it to keep a sandbox for later; a " +
    "service may still count it for your limit.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    keep_memory: z.boolean().default(true).describe("Whether processes go on after the resume."),
  }),
  output: z.object({
    sandbox_id: z.string(),
    outcome: z.enum(["paused", "already_paused"]),
    next: z.string(),
  }),
  annotations: IDEMPOTENT,
  async handler({ sandbox_id: sandboxId, keep_memory: keepsMemory }, context) {
    const { service, signal, suggest } = context;
    const { wasRunning, keptMemory } = await onOptionalRoute(
      service.control.pause(sandboxId, keepsMemory, signal),
      `The sandbox service cannot pause.${suggest("set_timeout", " set_timeout extends a life.")}`,
      () => service.control.get(sandboxId, signal),
    );
    const outcome = wasRunning ? ("paused" as const) : ("already_paused" as const);
    const isKept = !keepsMemory || (keptMemory ?? (await mayBeKept(sandboxId, context)));
    const hasEnded = isKept ? "" : "; its processes have ended";
    const resume = suggest(
      "connect_sandbox",
      `connect_sandbox(sandbox_id="${sandboxId}") resumes it`,
    );
    const next = [resume || "it can be resumed", hasEnded, endOf(sandboxId, context)];
    return recordReply({ sandbox_id: sandboxId, outcome, next: next.join("") });
  },
});

/** Whether the memory is kept, or that is not known: the sandbox is paused all the same. */
async function mayBeKept(
  sandboxId: string,
  { service, signal, log }: ToolContext,
): Promise<boolean> {
  try {
    return (await service.control.get(sandboxId, signal)).pauseMode !== "filesystem";
  } catch (error) {
    log.debug({ op: "pause.look", sandboxId, err: error });
    return true;
  }
}
