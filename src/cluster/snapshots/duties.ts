/** What the leading front does about snapshots: it removes what no reference means and no sandbox needs. */

import type { ClusterContext } from "../context.ts";
import type { Observations } from "../observations.ts";
import { readRecords } from "../present-state.ts";
import { usesImage } from "../records.ts";
import type { SnapshotRecord } from "./records.ts";
import { isUsed, superseded } from "./snapshots.ts";
import { removeSnapshot } from "./take.ts";

/** A front whose Lease is seen late is not taken for dead, nor a sandbox that is seen late for none. */
const UNUSED_GRACE_MS = 10_000;
/** A removal that its own front still carries out is not done twice. */
const REMOVING_GRACE_MS = 60_000;

export function snapshotDuties(
  context: ClusterContext,
  since: Pick<Observations, "lasts">,
): (() => Promise<unknown>)[] {
  const all = [...(context.snapshots?.items.values() ?? [])].flatMap(
    ({ snapshot }) => snapshot ?? [],
  );
  const old = new Set(superseded(all));
  return all
    .filter((snapshot) => isDue(context, snapshot, { isOld: old.has(snapshot), since }))
    .map(({ buildId, state }) => async () => {
      // The one copy of the files of a paused sandbox may be among them.
      if (state !== "ready" || !(await isNamedNow(context, buildId))) {
        await removeSnapshot(context, buildId);
      }
    });
}

async function isNamedNow({ api }: ClusterContext, buildId: string): Promise<boolean> {
  return (await readRecords(api)).some((stored) => usesImage(stored, buildId));
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
  if (state === "pending") return !isAlive && lasts("pending", UNUSED_GRACE_MS);
  const isUseless = isOld || (kind !== "snapshot" && (isReleased || !isAlive));
  return isUseless && !isUsed(context, buildId) && lasts("unused", UNUSED_GRACE_MS);
}
