/** Tool: removes a snapshot. */

import type { Service } from "../../client/service.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { withHints } from "../error-hints.ts";
import { recordReply } from "../respond.ts";
import { IDEMPOTENT_DESTRUCTIVE, defineTool } from "../tool.ts";

export const deleteSnapshot = defineTool({
  name: "delete_snapshot",
  title: "Delete a snapshot",
  description:
    "Deletes a snapshot for good, with all its names and versions. Sandboxes that were started " +
    "from it must be killed first; the sandbox that it was taken from is not touched. A " +
    "snapshot that is not there is no error. Only delete what you made.",
  toolset: "all",
  input: z.strictObject({
    snapshot_id: z.string().min(1).max(256).describe("From snapshot or list_snapshots."),
  }),
  output: z.object({ snapshot_id: z.string(), outcome: z.enum(["deleted", "already_gone"]) }),
  annotations: IDEMPOTENT_DESTRUCTIVE,
  async handler({ snapshot_id: snapshotId }, { service, signal, suggest }) {
    const kill = suggest("kill_sandbox", " Kill them with kill_sandbox first.");
    const wasThere = await withHints(service.control.deleteTemplate(snapshotId, signal), {
      invalid_argument: `Sandboxes started from it may still exist.${kill}`,
    });
    if (!wasThere && (await isThere(service, snapshotId, signal))) {
      const message = "The sandbox service cannot delete snapshots; it stays until its owner acts.";
      throw new SandboxError("unimplemented", "no route", { hint: message });
    }
    const outcome = wasThere ? ("deleted" as const) : ("already_gone" as const);
    return recordReply({ snapshot_id: snapshotId, outcome });
  },
});

/** A service without the route answers as for a snapshot that is gone. */
async function isThere(
  { control }: Service,
  snapshotId: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await control.template(snapshotId.split(":")[0] ?? snapshotId, { limit: 1 }, signal);
    return true;
  } catch (error) {
    if (error instanceof SandboxError && GONE.has(error.code)) return false;
    throw error;
  }
}

const GONE: ReadonlySet<string> = new Set(["not_found", "unimplemented", "permission_denied"]);
