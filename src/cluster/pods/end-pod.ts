/** Ends a sandbox: its record says so first, then its Pod goes, then the record. */

import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { isConflict } from "../api/api.ts";
import { removeObject } from "../api/object-calls.ts";
import type { ClusterContext } from "../context.ts";
import { changeRecord, isKnown, readRecord, type StoredSandbox } from "../records.ts";

/** Changes of a record by others that an end waits for; more mean that they never cease. */
const MAX_ROUNDS = 8;

interface EndContext extends Pick<ClusterContext, "api" | "log"> {
  readonly records: Pick<ClusterContext["records"], "apply" | "drop">;
}

/** Why one ends, and what must still hold then. */
export interface EndReason {
  readonly reason: string;
  /** Looks at the newest record; false leaves the sandbox as it is. */
  readonly holds?: (stored: StoredSandbox) => boolean;
}

/**
 * Returns whether this call has ended it; false for one that is ended or gone, or whose end no longer holds.
 * @throws SandboxError unavailable when others change it all the time
 */
export async function endSandbox(
  context: EndContext,
  sandboxId: string,
  { reason, holds = () => true }: EndReason,
): Promise<boolean> {
  const { api, records, log } = context;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await readRecord(api, sandboxId);
    if (stored === undefined) {
      records.drop(sandboxId);
      return false;
    }
    if (!isKnown(stored) || stored.record.state === "ending" || !holds(stored)) return false;
    try {
      records.apply(await changeRecord(api, stored, { state: "ending" }));
    } catch (error) {
      if (isConflict(error)) continue;
      throw error;
    }
    await step("pod.ending");
    await removeSandbox(context, sandboxId);
    log.info({ op: "sandbox.end", sandboxId, reason, outcome: "ok" }, "sandbox.end ok");
    return true;
  }
  throw new SandboxError("unavailable", `sandbox ${sandboxId} stays busy`);
}

/** Removes Pod and record of one whose end was decided. Idempotent. */
export async function removeSandbox(
  { api, records }: Pick<EndContext, "api" | "records">,
  sandboxId: string,
): Promise<void> {
  await removeObject(api, `pods/${sandboxId}`);
  await step("pod.removed");
  await removeObject(api, `configmaps/${sandboxId}`, { propagationPolicy: "Background" });
  records.drop(sandboxId);
  await step("pod.erased");
}
