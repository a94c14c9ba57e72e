/** Tool: ends a sandbox for good. */

import { z } from "../../common/schema.ts";
import { sandboxIdInput } from "../inputs.ts";
import { recordReply } from "../replies/respond.ts";
import { IDEMPOTENT_DESTRUCTIVE, defineTool } from "../tool.ts";

export const killSandbox = defineTool({
  name: "kill_sandbox",
  title: "Kill a sandbox",
  description:
    "Ends a sandbox for good, with all its processes and files. Use it when a task is done, to " +
    "free its place. Take a snapshot before if its files are still needed. The log resource of " +
    "the sandbox stays readable for 15 minutes.",
  toolset: "core",
  input: z.strictObject({ sandbox_id: sandboxIdInput() }),
  output: z.object({ sandbox_id: z.string(), outcome: z.enum(["killed", "already_gone"]) }),
  annotations: IDEMPOTENT_DESTRUCTIVE,
  async handler({ sandbox_id: sandboxId }, { service, state, signal }) {
    const wasThere = await service.control.kill(sandboxId, signal);
    state.forget(sandboxId);
    const outcome = wasThere === false ? ("already_gone" as const) : ("killed" as const);
    return recordReply({ sandbox_id: sandboxId, outcome });
  },
});
