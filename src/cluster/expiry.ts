/** Moves the expiry of a sandbox, in its record. */

import { SandboxError } from "../common/errors.ts";
import {
  checkTimeout,
  expiryAfter,
  MAX_RUN_MS,
  MIN_REFRESH_SECONDS,
} from "../sandboxes/timeout.ts";
import { MESSAGES, sandboxMissing } from "../wire/messages.ts";
import { isConflict } from "./api/api.ts";
import type { ClusterContext } from "./context.ts";
import { inChange } from "./pause/change.ts";
import { changeRecord, isKnown, readRecord, type KnownSandbox } from "./records.ts";

/** Changes by others that a change waits for. */
const MAX_ROUNDS = 8;

type ExpiryContext = Pick<ClusterContext, "api" | "records" | "clock">;

interface Target {
  readonly team: string;
  readonly sandboxId: string;
}

/** As on one machine: sooner or later than it was. */
export async function setTimeoutOf(
  context: ExpiryContext,
  target: Target,
  seconds: number,
): Promise<KnownSandbox> {
  return moveExpiry(context, target, ({ startedAtMs }) =>
    expiryAfter(context, seconds, startedAtMs),
  );
}

/** Never sooner than it was. */
export async function refreshSandbox(
  context: ExpiryContext,
  target: Target,
  seconds: number,
): Promise<void> {
  await extendSandbox(context, target, Math.max(seconds, MIN_REFRESH_SECONDS));
}

/** Never sooner than it was; returns the sandbox. */
export async function extendSandbox(
  context: ExpiryContext,
  target: Target,
  seconds: number,
): Promise<KnownSandbox> {
  checkTimeout(seconds);
  return moveExpiry(context, target, ({ startedAtMs, endAtMs }) =>
    Math.max(endAtMs, expiryAfter(context, seconds, startedAtMs)),
  );
}

async function moveExpiry(
  context: ExpiryContext,
  { team, sandboxId }: Target,
  toEndAtMs: (record: KnownSandbox["record"]) => number,
): Promise<KnownSandbox> {
  const { api, records, clock } = context;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const stored = await readRecord(api, sandboxId);
    if (!isKnown(stored) || stored.record.team !== team || stored.record.state !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    if (stored.change !== undefined) throw inChange(sandboxId, stored.change.kind);
    if (clock.now() > stored.record.startedAtMs + MAX_RUN_MS) {
      throw new SandboxError("invalid_argument", MESSAGES.lifetimeExceeded);
    }
    const endAtMs = toEndAtMs(stored.record);
    if (endAtMs === stored.record.endAtMs) return stored;
    try {
      const changed = await changeRecord(api, stored, { endAtMs });
      records.apply(changed);
      return changed;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
  throw new SandboxError("unavailable", `sandbox ${sandboxId} stays busy`);
}
