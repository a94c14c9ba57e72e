/** Tool: removes a snapshot. */

import type { Service } from "../../client/service.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { hinted } from "../replies/error-hints.ts";
import { recordReply } from "../replies/respond.ts";
import { IDEMPOTENT_DESTRUCTIVE, defineTool, type Suggest } from "../tool.ts";

export const deleteSnapshot = defineTool({
  name: "delete_snapshot",
  title: "Delete a snapshot",
  description:
    "Deletes a snapshot, or a template of build_template, for good, with all its names and " +
    "versions. Sandboxes started from it must be killed first; the one it was taken from is not " +
    "touched. What is not there is no error. Only delete what you made.",
  toolset: "all",
  input: z.strictObject({
    snapshot_id: z.string().min(1).max(256).describe("From snapshot or list_snapshots."),
  }),
  output: z.object({ snapshot_id: z.string(), outcome: z.enum(["deleted", "already_gone"]) }),
  annotations: IDEMPOTENT_DESTRUCTIVE,
  async handler({ snapshot_id: snapshotId }, { service, signal, suggest }) {
    const wasThere = await deleteHinted(
      service.control.deleteTemplate(snapshotId, signal),
      suggest,
    );
    if (wasThere !== true && (await isThere(service, snapshotId, signal))) {
      const message = "The sandbox service cannot delete snapshots; it stays until its owner acts.";
      throw new SandboxError("unimplemented", "no route", { hint: message });
    }
    const outcome = wasThere === false ? ("already_gone" as const) : ("deleted" as const);
    return recordReply({ snapshot_id: snapshotId, outcome });
  },
});

const IN_USE = /\bin use\b|\bsandbox(es)? using it\b/i;

/** A refusal has the same code for a snapshot in use and for a malformed identifier. */
async function deleteHinted<T>(deleting: Promise<T>, suggest: Suggest): Promise<T> {
  try {
    return await deleting;
  } catch (error) {
    if (!(error instanceof SandboxError) || !IN_USE.test(error.message)) throw error;
    const kill = suggest("kill_sandbox", " Kill them with kill_sandbox first.");
    throw hinted(error, `Sandboxes started from it still exist.${kill}`);
  }
}

/** A service without the route answers as for a snapshot that is gone. */
async function isThere(
  { control }: Service,
  snapshotId: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    // A template is found by any tag, but is not deleted by one that it does not have.
    if (snapshotId.includes(":")) await control.resolveReference(snapshotId, signal);
    else await control.template(snapshotId, { limit: 1 }, signal);
    return true;
  } catch (error) {
    if (error instanceof SandboxError && GONE.has(error.code)) return false;
    throw error;
  }
}

const GONE: ReadonlySet<string> = new Set(["not_found", "unimplemented", "permission_denied"]);
