/** Times to live: their bounds, and the operations that move an expiry. */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES, sandboxMissing, timeoutTooLong } from "../wire/messages.ts";
import type { Registry, SandboxEntry, Services, Tenant } from "./context.ts";
import { inTransition, noteRecord, requireNotEnding, updateRecord, whenIdle } from "./registry.ts";

const SECONDS_PER_HOUR = 3600;

/** A run longer than a day is a forgotten one. */
const MAX_RUN_HOURS = 24;
export const MAX_RUN_SECONDS = MAX_RUN_HOURS * SECONDS_PER_HOUR;
export const MAX_RUN_MS = MAX_RUN_SECONDS * 1000;

/** A refresh shorter than this counts as this much. */
export const MIN_REFRESH_SECONDS = 15;

/** @throws SandboxError invalid_argument when it is longer than a run may be. */
export function checkTimeout(seconds: number): void {
  if (seconds > MAX_RUN_SECONDS) {
    throw new SandboxError("invalid_argument", timeoutTooLong(MAX_RUN_HOURS));
  }
}

/** The expiry of a run that starts at this reading of the clock, cut at the longest run. */
export function expiryOfRun(seconds: number, startedAtMs: number): number {
  return startedAtMs + Math.min(seconds * 1000, MAX_RUN_MS);
}

/** The expiry `seconds` from now, cut at the longest run. */
export function expiryAfter(
  context: Pick<Services, "clock">,
  seconds: number,
  startedAtMs: number,
): number {
  return Math.min(context.clock.now() + seconds * 1000, startedAtMs + MAX_RUN_MS);
}

/**
 * Sets the expiry of a running sandbox to `seconds` from now, sooner or later than it was.
 * @throws SandboxError not_found when unknown or paused, failed_precondition during a change.
 */
export async function setTimeoutOf(
  context: Services & Tenant & Registry,
  sandboxId: string,
  seconds: number,
): Promise<void> {
  await moveExpiry(context, sandboxId, (_endAtMs, startedAtMs) =>
    expiryAfter(context, seconds, startedAtMs),
  );
}

/** Like `setTimeoutOf`, but never sooner than it was. */
export async function refresh(
  context: Services & Tenant & Registry,
  sandboxId: string,
  seconds: number,
): Promise<void> {
  await moveExpiry(context, sandboxId, (endAtMs, startedAtMs) => {
    const wanted = Math.max(seconds, MIN_REFRESH_SECONDS);
    return Math.max(endAtMs, expiryAfter(context, wanted, startedAtMs));
  });
}

/** More than a machine's clock is corrected by while it is right. */
const MAX_CORRECTION_MS = 5_000;

/** As `rebaseRun`, for every sandbox, and the same of pauses. */
export function rebaseRuns(context: Services & Registry): void {
  for (const entry of context.entries.values()) {
    if (entry.ending !== undefined) continue;
    if (entry.phase === "running") rebaseRun(context, entry);
    if (entry.phase === "paused") rebasePause(context, entry);
  }
}

/** A pause that lies in the future was made just now instead: what is due some time after it would wait. */
function rebasePause(context: Services & Registry, entry: SandboxEntry): void {
  const nowMs = context.clock.now();
  const { sandboxId, endAtMs } = entry.record;
  const aheadMs = endAtMs - nowMs;
  if (aheadMs <= MAX_CORRECTION_MS) return;
  context.log.warn({ op: "sandbox.expire", sandboxId, aheadMs }, "the clock was set back");
  noteRecord(context, entry, { endAtMs: nowMs });
}

/**
 * A run that begins in the future, because the clock was set back, begins now instead: as it is, it
 * would live longer by as much, which may be years. For one that runs, before its expiry is moved,
 * because what was asked for counts from now.
 */
export function rebaseRun(context: Services & Registry, entry: SandboxEntry): void {
  const nowMs = context.clock.now();
  const { sandboxId, startedAtMs, endAtMs } = entry.record;
  const aheadMs = startedAtMs - nowMs;
  if (aheadMs <= MAX_CORRECTION_MS) return;
  context.log.warn({ op: "sandbox.expire", sandboxId, aheadMs }, "the clock was set back");
  noteRecord(context, entry, { startedAtMs: nowMs, endAtMs: endAtMs - aheadMs });
}

async function moveExpiry(
  context: Services & Tenant & Registry,
  sandboxId: string,
  toEndAtMs: (endAtMs: number, startedAtMs: number) => number,
): Promise<void> {
  const entry = requireNotEnding(context, sandboxId);
  if (entry.phase === "pausing" || entry.phase === "snapshotting") {
    throw inTransition(sandboxId, entry.phase);
  }
  await whenIdle(entry, () => {
    if (entry.ending !== undefined) throw inTransition(sandboxId, "killing");
    if (entry.phase !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    rebaseRun(context, entry);
    const { endAtMs, startedAtMs } = entry.record;
    if (context.clock.now() > startedAtMs + MAX_RUN_MS) {
      throw new SandboxError("invalid_argument", MESSAGES.lifetimeExceeded);
    }
    updateRecord(context, entry, { endAtMs: toEndAtMs(endAtMs, startedAtMs) });
    context.rescheduleExpiry();
  });
}
