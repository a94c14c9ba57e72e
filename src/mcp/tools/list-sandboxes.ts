/** Tool: lists sandboxes. */

import { z } from "../../common/schema.ts";
import { FILTER_BOUNDS } from "../../wire/bounds.ts";
import { pairsInput, toRecord } from "../inputs.ts";
import { withHints } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

export const listSandboxes = defineTool({
  name: "list_sandboxes",
  title: "List sandboxes",
  description:
    "Lists the sandboxes of this account, newest first, from all clients, with state, " +
    "template and expiry. Use it to find a sandbox_id again; filter by the labels that were " +
    "given to create_sandbox. Do not use sandboxes that belong to another task.",
  toolset: "core",
  input: z.strictObject({
    state: z.enum(["running", "paused"]).optional().describe("Only these; default: both."),
    metadata: pairsInput("Only sandboxes with all of these labels.", FILTER_BOUNDS),
    limit: z.int().min(1).max(100).default(20).describe("Most sandboxes to return."),
    cursor: z.string().max(1_024).optional().describe("next_cursor of the last reply."),
  }),
  output: z.object({
    sandboxes: z.array(
      z.object({
        sandbox_id: z.string(),
        state: z.enum(["running", "paused"]),
        template: z.string(),
        expires_at: z.string().optional(),
      }),
    ),
    next_cursor: z.string().optional(),
    note: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ state, metadata, limit, cursor }, { service, signal }) {
    const filter = {
      ...(state !== undefined && { states: [state] }),
      ...(metadata !== undefined && { metadata: toRecord(metadata) }),
      ...(cursor !== undefined && { nextToken: cursor }),
      limit,
    };
    const page = await withHints(service.control.list(filter, signal), {
      invalid_argument: cursor === undefined ? "" : "Start again without cursor.",
    });
    return recordReply({
      sandboxes: page.sandboxes.map((sandbox) => ({
        sandbox_id: sandbox.sandboxID,
        state: sandbox.state,
        template: sandbox.alias ?? sandbox.templateID,
        // The time to live of a paused one does not run.
        ...(sandbox.state === "running" && { expires_at: sandbox.endAt }),
      })),
      ...(page.nextToken !== undefined && { next_cursor: page.nextToken }),
      ...(page.ofRunning !== undefined && { note: noteOf(page.ofRunning) }),
    });
  },
});

function noteOf({ omitted }: { readonly omitted: number }): string {
  const rest = omitted === 0 ? "" : `; ${omitted} more are not listed: raise limit`;
  return `this service lists running sandboxes only${rest}`;
}
