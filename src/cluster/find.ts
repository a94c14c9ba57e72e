/** Which sandboxes there are, by what is known here or by what the cluster says now. */

import { anySignal } from "../common/any-signal.ts";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";
import { MESSAGES, sandboxMissing } from "../wire/messages.ts";
import { addressOf } from "./api/objects.ts";
import type { ClusterContext } from "./context.ts";
import { isKnown, readRecord, type KnownSandbox } from "./records.ts";

/** A Pod that another front has started is seen here a moment later. */
const SIGHT_TIMEOUT_MS = 5_000;

export function knownOf({ records }: Pick<ClusterContext, "records">): KnownSandbox[] {
  return [...records.items.values()].filter((stored) => isKnown(stored));
}

/** Undefined for one that neither runs nor is paused, or of another team. */
export function findKnown(
  { records }: ClusterContext,
  team: string,
  sandboxId: string,
): KnownSandbox | undefined {
  const stored = records.items.get(sandboxId);
  const isOwn = isKnown(stored) && stored.record.team === team;
  return isOwn && isListed(stored) ? stored : undefined;
}

export function isListed({ record: { state } }: KnownSandbox): boolean {
  return state === "running" || state === "paused";
}

/** @throws SandboxError not_found for one that neither runs nor is paused, or of another team. */
export function requireKnown(
  context: ClusterContext,
  team: string,
  sandboxId: string,
): KnownSandbox {
  const stored = findKnown(context, team, sandboxId);
  if (stored !== undefined) return stored;
  throw new SandboxError("not_found", sandboxMissing(sandboxId));
}

/** Reads a record that another front may have changed; while the API server is away, what is known counts. */
export async function readFresh(
  { api, records }: ClusterContext,
  sandboxId: string,
): Promise<void> {
  try {
    const stored = await readRecord(api, sandboxId);
    if (stored === undefined) records.drop(sandboxId);
    else records.apply(stored);
  } catch (error) {
    if (!hasErrorCode(error, "unavailable")) throw error;
  }
}

/** The endpoint of a sandbox that another front may just have started. */
export async function findFresh(context: ClusterContext, sandboxId: string) {
  const stored = context.records.items.get(sandboxId);
  if (isKnown(stored) && stored.record.state === "running") {
    const signal = anySignal([context.closing, signalAfter(SIGHT_TIMEOUT_MS)]);
    await context.pods
      .until(sandboxId, (pod) => pod && addressOf(pod), signal)
      .catch(() => undefined);
    const endpoint = context.runs.find(sandboxId);
    if (endpoint !== undefined) return endpoint;
  }
  throw new SandboxError("not_found", MESSAGES.sandboxUnreachable);
}

const SANDBOX_ID_PATTERN = /^i[a-z0-9]{20}$/;

/** Reads of records that requests to the gateway cause, at most; more find what is known here alone. */
const MAX_READS_PER_SECOND = 20;

export function createReadLimit(): (sandboxId: string) => boolean {
  let left = MAX_READS_PER_SECOND;
  let atMs = performance.now();
  return (sandboxId) => {
    const nowMs = performance.now();
    const earned = ((nowMs - atMs) / 1_000) * MAX_READS_PER_SECOND;
    left = Math.min(left + earned, MAX_READS_PER_SECOND);
    atMs = nowMs;
    if (!SANDBOX_ID_PATTERN.test(sandboxId) || left < 1) return false;
    left -= 1;
    return true;
  };
}

/** Those that this front starts are counted as reservations, from before they have a record. */
export function countByTeam(
  context: Pick<ClusterContext, "records" | "fronts">,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const stored of knownOf(context)) {
    const { team, state, owner } = stored.record;
    const isStarting = state === "starting" && owner !== context.fronts.name;
    if (isStarting || isListed(stored)) counts.set(team, (counts.get(team) ?? 0) + 1);
  }
  return counts;
}

export function countStates(context: ClusterContext) {
  const known = knownOf(context);
  const running = known.filter(({ record }) => record.state === "running").length;
  const starting = known.filter(({ record }) => record.state === "starting").length;
  const paused = known.filter(({ record }) => record.state === "paused").length;
  return { running, paused, starting };
}

export function phaseOf({ record, change }: KnownSandbox): "running" | "paused" | "pausing" {
  if (record.state === "paused") return "paused";
  return change?.kind === "pausing" ? "pausing" : "running";
}
