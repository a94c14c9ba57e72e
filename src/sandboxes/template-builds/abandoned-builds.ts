/** Requests for builds whose steps never came, and what is left of the logs of removed builds. */

import type { Store } from "../../store/store.ts";

/** A request that waits for longer counts no more: its client is gone. */
const MAX_WAIT_MS = 24 * 3_600_000;

export function forgetAbandoned(
  store: Pick<Store, "templateBuilds" | "buildLines">,
  nowMs: number,
): void {
  for (const { buildId, status, createdAtMs } of store.templateBuilds.open()) {
    // By the distance in time: the clock may have been set back.
    if (status !== "waiting" || Math.abs(nowMs - createdAtMs) <= MAX_WAIT_MS) continue;
    store.templateBuilds.remove(buildId);
    store.buildLines.remove(buildId);
  }
}

/**
 * Lines of a build that still ran when its template was removed, and whose service then died: they are
 * in a file of their own, which no transaction on builds covers.
 */
export function forgetLostLines(store: Pick<Store, "templateBuilds" | "buildLines">): void {
  const withLines = store.buildLines.buildIds();
  // Read after the lines: a build has its row before its first line.
  const known = new Set(store.templateBuilds.ids());
  for (const buildId of withLines) if (!known.has(buildId)) store.buildLines.remove(buildId);
}
