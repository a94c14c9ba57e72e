/**
 * What the cluster says now. News of a watch may be late, for one kind and not for another: nothing is
 * removed because of it alone.
 */

import type { ClusterApi } from "./api/api.ts";
import { listObjects } from "./api/list-pages.ts";
import { readObject } from "./api/object-calls.ts";
import { endOf, podSchema } from "./api/objects.ts";
import type { ClusterContext } from "./context.ts";
import { readRecord, RECORD_SELECTOR, storedSchema, type StoredSandbox } from "./records.ts";

/** Whether a sandbox has no Pod that runs, or that may still run. */
export async function hasNoPod({ api, pods }: ClusterContext, sandboxId: string): Promise<boolean> {
  const pod = await readObject(api, { path: `pods/${sandboxId}` }, podSchema);
  if (pod !== undefined) pods.apply(pod);
  return pod === undefined || endOf(pod) !== undefined;
}

/** Whether a sandbox is paused, and nothing is under way with it. */
export async function isParked({ api, records }: ClusterContext, sandboxId: string) {
  const stored = await readRecord(api, sandboxId);
  if (stored !== undefined) records.apply(stored);
  return stored?.record?.state === "paused" && stored.change === undefined;
}

/** Whether a Pod belongs to no record. */
export async function isOrphan({ api, records }: ClusterContext, name: string): Promise<boolean> {
  const stored = await readRecord(api, name);
  if (stored !== undefined) records.apply(stored);
  return stored === undefined;
}

/** The records of all sandboxes. */
export async function readRecords(api: ClusterApi): Promise<readonly StoredSandbox[]> {
  const { items } = await listObjects(api, { kind: "configmaps", selector: RECORD_SELECTOR });
  return items.map((item) => storedSchema.parse(item));
}
