/** Times to live: their bounds, and the operations that move an expiry. */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES, sandboxMissing, timeoutTooLong } from "../wire/messages.ts";
import { inTransition, requireLiving, whenSettled, updateRecord, type Domain } from "./domain.ts";

const SECONDS_PER_HOUR = 3600;

/** A run longer than a day is a forgotten one. */
const MAX_RUN_HOURS = 24;
export const MAX_RUN_SECONDS = MAX_RUN_HOURS * SECONDS_PER_HOUR;
const MAX_RUN_MS = MAX_RUN_SECONDS * 1000;

/** A refresh shorter than this counts as this much. */
const MIN_REFRESH_SECONDS = 15;

/** @throws SandboxError invalid_argument when it is longer than a run may be. */
export function checkTimeout(seconds: number): void {
  if (seconds > MAX_RUN_SECONDS) {
    throw new SandboxError("invalid_argument", timeoutTooLong(MAX_RUN_HOURS));
  }
}

/** The expiry `seconds` from now, cut at the longest run. */
export function expiryAfter(domain: Domain, seconds: number, startedAtMs: number): number {
  return Math.min(domain.clock.now() + seconds * 1000, startedAtMs + MAX_RUN_MS);
}

/**
 * Sets the expiry of a running sandbox to `seconds` from now, sooner or later than it was.
 * @throws SandboxError not_found when unknown or paused, failed_precondition during a change.
 */
export async function setTimeoutOf(
  domain: Domain,
  sandboxId: string,
  seconds: number,
): Promise<void> {
  await moveExpiry(domain, sandboxId, (_endAtMs, startedAtMs) =>
    expiryAfter(domain, seconds, startedAtMs),
  );
}

/** Like `setTimeoutOf`, but never sooner than it was. */
export async function refresh(domain: Domain, sandboxId: string, seconds: number): Promise<void> {
  await moveExpiry(domain, sandboxId, (endAtMs, startedAtMs) => {
    const wanted = Math.max(seconds, MIN_REFRESH_SECONDS);
    return Math.max(endAtMs, expiryAfter(domain, wanted, startedAtMs));
  });
}

async function moveExpiry(
  domain: Domain,
  sandboxId: string,
  toEndAtMs: (endAtMs: number, startedAtMs: number) => number,
): Promise<void> {
  const member = requireLiving(domain, sandboxId);
  if (member.phase === "pausing" || member.phase === "snapshotting") {
    throw inTransition(sandboxId, member.phase);
  }
  await whenSettled(member, () => {
    if (member.ending !== undefined) throw inTransition(sandboxId, "killing");
    if (member.phase !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    const { endAtMs, startedAtMs } = member.record;
    if (domain.clock.now() > startedAtMs + MAX_RUN_MS) {
      throw new SandboxError("invalid_argument", MESSAGES.lifetimeExceeded);
    }
    updateRecord(domain, member, { endAtMs: toEndAtMs(endAtMs, startedAtMs) });
    domain.noteExpiry();
  });
}
