/** Removes the image of a snapshot: its record says so first, then the image goes, then the record. */

import { anySignal } from "../../common/any-signal.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import type { ClusterContext } from "../context.ts";
import { readRecords } from "../present-state.ts";
import { usesImage } from "../records.ts";
import { findImagePlace } from "./image-place.ts";
import { removeImage } from "./push.ts";
import { changeSnapshot, eraseSnapshot, snapshotName, type SnapshotRecord } from "./records.ts";
import { createRegistry } from "./registry.ts";

const REMOVE_TIMEOUT_MS = 60_000;

/** The end of a snapshot, which this front carries out from now on. */
export function toRemoving({ fronts }: Pick<ClusterContext, "fronts">) {
  return { state: "removing", owner: fronts.name } as const;
}

/** Which of these images sandboxes have now: for a paused one it is the one copy of its files. */
export async function findUsed(
  { api }: Pick<ClusterContext, "api">,
  builds: readonly string[],
): Promise<readonly string[]> {
  const stored = await readRecords(api);
  return builds.filter((buildId) => stored.some((one) => usesImage(one, buildId)));
}

/**
 * Removes the image and the record of one whose end was decided; returns whether it is gone. Idempotent.
 * Sandboxes are counted once more after the mark, and a create reads the mark after its record is written:
 * one that a sandbox has stays.
 * @param holds looks at the newest record; false leaves the snapshot as it is
 */
export async function removeSnapshot(
  context: ClusterContext,
  buildId: string,
  holds: (snapshot: SnapshotRecord) => boolean = () => true,
): Promise<boolean> {
  const { api, snapshots } = context;
  const removing = await changeSnapshot(api, buildId, { changes: toRemoving(context), holds });
  // It is gone, no longer due, or was edited since: one that cannot be read stays.
  if (removing === undefined) return true;
  snapshots?.apply(removing);
  await step("image.removing");
  if (await restoreUsed(context, removing.snapshot)) return false;
  await removeImageOf(context, removing.snapshot);
  await step("image.removed");
  await eraseSnapshot(api, buildId);
  snapshots?.drop(snapshotName(buildId));
  await step("image.erased");
  return true;
}

/** Takes the mark back from one that a sandbox has; returns whether it did. */
async function restoreUsed(
  context: ClusterContext,
  { buildId, image }: Pick<SnapshotRecord, "buildId" | "image">,
): Promise<boolean> {
  // One that was never pushed has no name that a sandbox could have.
  if (image === "" || (await findUsed(context, [buildId])).length === 0) return false;
  await restoreSnapshot(context, buildId);
  return true;
}

/** It is ready as before. */
export async function restoreSnapshot(context: ClusterContext, buildId: string): Promise<void> {
  const restored = await changeSnapshot(context.api, buildId, {
    changes: { state: "ready", isReleased: true },
    holds: ({ state, image }) => state === "removing" && image !== "",
  });
  if (restored !== undefined) context.snapshots?.apply(restored);
}

export async function removeImageOf(
  { snapshotSettings: settings, closing, log }: ClusterContext,
  { buildId, registry }: SnapshotRecord,
): Promise<void> {
  if (settings === undefined) return;
  const signal = anySignal([closing, signalAfter(REMOVE_TIMEOUT_MS)]);
  const { place } = await findImagePlace(registry, settings);
  const isGone = await removeImage(createRegistry(place, signal), snapshotName(buildId));
  if (!isGone) log.warn({ op: "snapshot.remove", buildId }, "the registry removes no images");
}
