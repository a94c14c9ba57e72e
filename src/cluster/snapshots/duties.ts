/** What the leading front does about snapshots: it removes what no reference means and no sandbox needs. */

import type { ClusterContext } from "../context.ts";
import type { Observations } from "../observations.ts";
import type { SnapshotRecord } from "./records.ts";
import type { Removal } from "./removals.ts";
import { findUsed, removeSnapshot } from "./remove.ts";
import { isUsed, superseded } from "./snapshots.ts";
import { TAKE_TIMEOUT_MS } from "./take.ts";

/** A front whose Lease is seen late is not taken for dead, nor a sandbox that is seen late for none. */
const UNUSED_GRACE_MS = 10_000;
/**
 * Longer than any image is made. Its record may come into being after its front has given up the request
 * that made it, and has found nothing to remove.
 */
const MAX_TAKE_MS = TAKE_TIMEOUT_MS + 300_000;
/** A removal that its own front still carries out is not done twice. */
const REMOVING_GRACE_MS = 60_000;

/** What is due now. */
export function snapshotDuties(
  context: ClusterContext,
  since: Pick<Observations, "lasts">,
): Removal[] {
  const all = [...(context.snapshots?.items.values() ?? [])].flatMap(
    ({ snapshot }) => snapshot ?? [],
  );
  const old = new Set(superseded(all));
  return all
    .filter((snapshot) => isDue(context, snapshot, { isOld: old.has(snapshot), since }))
    .map(({ buildId, state }) => ({
      buildId,
      async run() {
        // The mark alone would keep a paused sandbox, whose record is seen late, from its connect.
        const isUsedNow = state === "ready" && (await findUsed(context, [buildId])).length > 0;
        if (isUsedNow) return;
        // One that is seen to be made may be ready by now: then it is kept.
        const holds = (present: SnapshotRecord) => state === "ready" || present.state !== "ready";
        await removeSnapshot(context, buildId, holds);
      },
    }));
}

function isDue(
  context: ClusterContext,
  snapshot: SnapshotRecord,
  { isOld, since }: { readonly isOld: boolean; readonly since: Pick<Observations, "lasts"> },
): boolean {
  const { state, buildId, owner, kind, isReleased } = snapshot;
  const lasts = (what: string, ms: number) => since.lasts(`${what} ${buildId}`, ms);
  const isAlive = context.fronts.isAlive(owner);
  if (state === "removing") {
    return lasts("removing", isAlive ? REMOVING_GRACE_MS : UNUSED_GRACE_MS);
  }
  if (state === "pending") {
    if (lasts("pending", MAX_TAKE_MS)) return true;
    return !isAlive && lasts("pending of a dead front", UNUSED_GRACE_MS);
  }
  const isUseless = isOld || (kind !== "snapshot" && (isReleased || !isAlive));
  return isUseless && !isUsed(context, buildId) && lasts("unused", UNUSED_GRACE_MS);
}
