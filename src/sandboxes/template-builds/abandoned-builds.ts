/** Requests for builds whose steps never came. */

import type { Store } from "../../store/store.ts";

/** A request that waits for longer counts no more: its client is gone. */
const MAX_WAIT_MS = 24 * 3_600_000;

export function forgetAbandoned(
  store: Pick<Store, "templateBuilds" | "buildLines">,
  nowMs: number,
): void {
  for (const { buildId, status, createdAtMs } of store.templateBuilds.all()) {
    if (status !== "waiting" || createdAtMs >= nowMs - MAX_WAIT_MS) continue;
    store.templateBuilds.remove(buildId);
    store.buildLines.remove(buildId);
  }
}
