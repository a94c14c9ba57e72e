/** Tool: sets the expiry of a sandbox. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { MAX_TIMEOUT_SECONDS, sandboxIdInput } from "../inputs.ts";
import { onOptionalRoute, requireRunning, withHints } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { IDEMPOTENT, defineTool, type ToolContext } from "../tool.ts";

export const setTimeoutTool = defineTool({
  name: "set_timeout",
  title: "Set the timeout",
  description:
    "Sets when a running sandbox ends, or is paused if it was made so: timeout_seconds from now, " +
    "longer or shorter than before. Call it before work that takes longer than the expiry in " +
    "results. Services limit it to a maximum life; the reply states the new expiry. To " +
    "end a sandbox now use kill_sandbox; for a paused one use connect_sandbox.",
  toolset: "core",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    timeout_seconds: z.int().min(1).max(MAX_TIMEOUT_SECONDS).describe("Seconds from now."),
  }),
  output: z.object({ sandbox_id: z.string(), expires_at: z.string() }),
  annotations: IDEMPOTENT,
  async handler({ sandbox_id: sandboxId, timeout_seconds: seconds }, context) {
    const { service, signal, suggest } = context;
    const setting = withHints(service.control.setTimeout(sandboxId, seconds, signal), {
      invalid_argument: suggest(
        "snapshot",
        "Past its maximum life: take a snapshot and start from it.",
      ),
    });
    const connect = suggest("connect_sandbox", " connect_sandbox extends a life, too.");
    await onOptionalRoute(
      setting,
      `The sandbox service sets no timeout of a running sandbox.${connect}`,
      () => requireRunning(sandboxId, context),
    );
    const detail = await readBack(sandboxId, context);
    return recordReply({ sandbox_id: detail.sandboxID, expires_at: detail.endAt });
  },
});

/** The service may clamp the timeout. @throws SandboxError that says that it is set. */
async function readBack(sandboxId: string, { service, signal, suggest }: ToolContext) {
  try {
    return await service.control.get(sandboxId, signal);
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code === "not_found") throw error;
    const hint = `It is set${suggest("get_sandbox", ": get_sandbox returns the time that counts")}.`;
    const message = `the time of the timeout is not known: ${error.message}`;
    throw new SandboxError(error.code, message, { cause: error, hint });
  }
}
