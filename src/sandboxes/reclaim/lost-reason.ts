/** Why a sandbox ended that was gone when the service started. */

import type { SandboxRecord } from "../../store/store.ts";

interface Machine {
  readonly nowMs: number;
  /** When it started. */
  readonly bootedAtMs: number;
}

/** Of a pooled one: no later service takes it, so the guardian ends it with the service that made it. */
const POOLED = "service end";

/**
 * That of an end which was begun; else `timeout` where its time to live is over, because the guardian ends it at that time while no
 * service runs. No container outlives its machine: one that had started before the machine did, and
 * whose time was not over then, ended with the machine, however late the service starts.
 */
export function lostReason(
  record: Pick<
    SandboxRecord,
    "state" | "endReason" | "pausesAtTimeout" | "startedAtMs" | "endAtMs"
  >,
  { nowMs, bootedAtMs }: Machine,
): string {
  if (record.state === "pooled") return POOLED;
  if (record.state === "ending" && record.endReason !== undefined) return record.endReason;
  if (!isOver(record, nowMs)) return "host_restart";
  const { startedAtMs, endAtMs } = record;
  return startedAtMs < bootedAtMs && bootedAtMs < endAtMs ? "host_restart" : "timeout";
}

/** Whether the time to live of one that ends with it has passed. */
export function isOver(
  { state, pausesAtTimeout, endAtMs }: Pick<SandboxRecord, "state" | "pausesAtTimeout" | "endAtMs">,
  nowMs: number,
): boolean {
  return state === "running" && !pausesAtTimeout && endAtMs <= nowMs;
}
