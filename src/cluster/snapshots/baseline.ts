/** Before any program of a client runs, the daemon of a Pod has noted what its image contains. */

import { hasErrorCode } from "../../common/errors.ts";
import { askDaemon } from "../ask-daemon.ts";
import type { ClusterContext } from "../context.ts";
import type { PodDialer } from "../dial.ts";

/** The daemon began at its start. A daemon that cannot note it runs all the same, without snapshots. */
export async function keepBaseline(
  { snapshots, log }: Pick<ClusterContext, "snapshots" | "log">,
  dialer: PodDialer,
  signal: AbortSignal,
): Promise<void> {
  if (snapshots === undefined) return;
  try {
    await askDaemon(dialer, { path: "/baseline", maxBytes: 0, body: {} }, signal);
  } catch (error) {
    if (!hasErrorCode(error, "internal")) throw error;
    log.warn({ op: "sandbox.create", err: error }, "no snapshots of this sandbox");
  }
}
