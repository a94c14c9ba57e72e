/** Ends sandboxes on request, and ends or pauses them at their timeout. */

import type {
  FailedPause,
  SandboxContext,
  SandboxEntry,
  Registry,
  Services,
  Folders,
  History,
} from "../context.ts";
import { findEntry } from "../find-entry.ts";
import { pauseEntry } from "../pause/pause-sandbox.ts";
import { endEntry } from "../registry.ts";
import { endUnadopted } from "./adopt.ts";

/**
 * Ends it and resolves when nothing of it is left; it is gone for others at once.
 * @throws SandboxError not_found when there is none.
 */
export async function killSandbox(context: SandboxContext, sandboxId: string): Promise<void> {
  const entry = findEntry(context, sandboxId);
  if (entry === undefined) return endUnadopted(context, sandboxId);
  await endEntry(context, entry, "request");
}

/** A pause at the timeout that fails is tried again, so that a passing fault costs no sandbox. */
const PAUSE_RETRY_MS = 1_000;
/** A sandbox that cannot be paused outlives its time by so many of them. */
const MAX_PAUSE_RETRIES = 30;

/** The nearest expiry; undefined when nothing expires. */
export function nextExpiry(context: Pick<Services, "clock"> & Registry): number | undefined {
  return expiringEntries(context).reduce<number | undefined>(
    (nearest, entry) => Math.min(nearest ?? Infinity, dueAtMs(context, entry)),
    undefined,
  );
}

/** Ends or pauses whatever is due; none of it is due any more when this returns. */
export function expireDue(context: Services & Folders & History & Registry): void {
  const nowMs = context.clock.now();
  for (const entry of expiringEntries(context)) {
    // Its faults are logged inside.
    if (dueAtMs(context, entry) <= nowMs) void expireEntry(context, entry);
  }
}

/** On the wall clock, which may have been set since a retry was planned. */
function dueAtMs({ clock }: Pick<Services, "clock">, entry: SandboxEntry): number {
  const failed = failedPauseOf(entry);
  if (failed === undefined) return entry.record.endAtMs;
  return clock.now() + failed.retryAtElapsedMs - clock.elapsed();
}

function failedPauseOf({ failedPause, record }: SandboxEntry): FailedPause | undefined {
  return failedPause?.endAtMs === record.endAtMs ? failedPause : undefined;
}

/** Running entries: those that have an expiry which is not being acted on already. */
function expiringEntries(context: Registry): SandboxEntry[] {
  return [...context.entries.values()].filter(
    ({ phase, ending }) => phase === "running" && ending === undefined,
  );
}

async function expireEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
): Promise<void> {
  const { sandboxId, pausesAtTimeout, keepsMemory } = entry.record;
  try {
    if (pausesAtTimeout) await pauseEntry(context, entry, { reason: "timeout", keepsMemory });
    else await endEntry(context, entry, "timeout");
  } catch (error) {
    context.log.error({ op: "sandbox.expire", sandboxId, err: error }, "expiry failed");
    if (!pausesAtTimeout || entry.ending !== undefined) return;
    if (!retryPause(context, entry)) await endAfterFault(context, entry);
  }
}

/** Whether there will be another attempt. */
function retryPause(context: Services & Registry, entry: SandboxEntry): boolean {
  const retries = (failedPauseOf(entry)?.retries ?? 0) + 1;
  if (retries > MAX_PAUSE_RETRIES) return false;
  const retryAtElapsedMs = context.clock.elapsed() + PAUSE_RETRY_MS;
  entry.failedPause = { endAtMs: entry.record.endAtMs, retries, retryAtElapsedMs };
  context.rescheduleExpiry();
  return true;
}

async function endAfterFault(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
): Promise<void> {
  try {
    await endEntry(context, entry, "timeout");
  } catch (error) {
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.end", sandboxId, err: error }, "end failed");
  }
}
