/** Tool: lists snapshots. */

import { z } from "../../common/schema.ts";
import { onOptionalRoute, withHints } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

export const listSnapshots = defineTool({
  name: "list_snapshots",
  title: "List snapshots",
  description:
    "Lists the snapshots of this account from all clients, newest first, one of each name. " +
    "Use a snapshot_id as template of create_sandbox, or with delete_snapshot.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: z
      .string()
      .max(128)
      .regex(/^[a-z0-9]+(-[a-z0-9]+)?$/)
      .optional()
      .describe("Only those taken from this sandbox."),
    name: z.string().min(1).max(256).optional().describe("Only those of this name."),
    limit: z.int().min(1).max(100).default(20).describe("Most snapshots to return."),
    cursor: z.string().max(1_024).optional().describe("next_cursor of the last reply."),
  }),
  output: z.object({
    snapshots: z.array(z.object({ snapshot_id: z.string(), names: z.array(z.string()) })),
    next_cursor: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId, name, limit, cursor }, { service, signal }) {
    const filter = {
      limit,
      ...(sandboxId !== undefined && { sandboxID: sandboxId }),
      ...(name !== undefined && { name }),
      ...(cursor !== undefined && { nextToken: cursor }),
    };
    const listing = withHints(service.control.snapshots(filter, signal), {
      invalid_argument: cursor === undefined ? "" : "Start again without cursor.",
    });
    const missing =
      "The sandbox service cannot list snapshots. Use a snapshot_id that snapshot returned.";
    const page = await onOptionalRoute(listing, missing, () =>
      service.control.list({ limit: 1 }, signal),
    );
    return recordReply({
      snapshots: page.snapshots.map(({ snapshotID, names }) => ({
        snapshot_id: snapshotID,
        names,
      })),
      ...(page.nextToken !== undefined && { next_cursor: page.nextToken }),
    });
  },
});
