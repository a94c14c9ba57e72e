/**
 * Pauses a sandbox: connections break, and either every process is frozen with its memory or
 * all end and only the files stay.
 */

import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { sandboxAlreadyPaused, sandboxCannotBe } from "../../wire/messages.ts";
import { findDaemonFault } from "../boot/find-daemon-fault.ts";
import type {
  SandboxContext,
  SandboxEntry,
  Services,
  Folders,
  History,
  Registry,
} from "../context.ts";
import { requireKnownEntry } from "../find-entry.ts";
import {
  changeState,
  noteRecord,
  openRun,
  whenIdle,
  updateRecord,
  endEntry,
  followEntry,
} from "../registry.ts";

/**
 * Resolves when it is paused, with whether its memory stays. Calls that come while it is being paused
 * join.
 * @throws SandboxError not_found, or failed_precondition when it is paused already or ending.
 */
export async function pauseSandbox(
  context: SandboxContext,
  sandboxId: string,
  wanted: Pick<Pause, "keepsMemory"> & { readonly requiresDaemon: boolean },
): Promise<boolean> {
  const entry = requireKnownEntry(context, sandboxId);
  // The memory of one that was paused before may be on its way to the disk.
  const isJoining = entry.phase === "pausing" && entry.record.state !== "paused";
  return whenIdle(entry, async () => {
    if (entry.ending !== undefined) {
      throw new SandboxError(
        "failed_precondition",
        sandboxCannotBe("paused", sandboxId, "killing"),
      );
    }
    if (entry.phase !== "paused") {
      await pauseEntry(context, entry, { reason: "request", ...wanted });
    } else if (entry.record.pauseReason === "disk_full") {
      // From now on it waits for its client, not for space.
      updateRecord(context, entry, { pauseReason: "request", leftMs: 0 });
    } else if (!isJoining) {
      throw new SandboxError("failed_precondition", sandboxAlreadyPaused(sandboxId));
    }
    return entry.record.hasMemory;
  });
}

type PauseReason = NonNullable<SandboxRecord["pauseReason"]>;

/** Why a sandbox is paused, and whether its memory stays. */
export interface Pause {
  readonly reason: PauseReason;
  readonly keepsMemory: boolean;
  /** For a pause that the service ends by itself: the rest of the time to live. */
  readonly leftMs?: number;
  /** Whether a daemon that does not answer prevents the pause. */
  readonly requiresDaemon?: boolean;
}

/** Pauses a running entry; only for callers that found no change under way. */
export async function pauseEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  pause: Pause,
): Promise<void> {
  const { reason, keepsMemory } = pause;
  context.logBook.note(entry.record, "Pausing sandbox", { pause_reason: reason });
  entry.pausing = { hasMemory: keepsMemory, pauseReason: reason };
  await changeState(context, { entry, during: "pausing" }, async () => {
    const fault = asksDaemon(pause) ? await findDaemonFault(context, entry) : undefined;
    if (fault !== undefined && pause.requiresDaemon === true) throw silentDaemon(entry, fault);
    entry.run?.end();
    entry.run = undefined;
    if (keepsMemory)
      await freeze(context, entry, { ...pause, isDaemonUnresponsive: fault !== undefined });
    else await halt(context, entry, reason);
    return "paused";
  }).finally(() => (entry.pausing = undefined));
  await step("pause.committed");
  const { sandboxId } = entry.record;
  context.log.info(
    { op: "sandbox.pause", sandboxId, reason, keepsMemory, outcome: "ok" },
    "sandbox.pause ok",
  );
}

/** On a full disk each moment counts, and a daemon may wait for the disk. */
function asksDaemon({ reason, keepsMemory, requiresDaemon }: Pause): boolean {
  return reason !== "disk_full" && (keepsMemory || requiresDaemon === true);
}

function silentDaemon({ record }: Pick<SandboxEntry, "record">, cause: unknown): SandboxError {
  const message = `the daemon of sandbox '${record.sandboxId}' does not answer`;
  return new SandboxError("unavailable", message, {
    cause,
    hint: "pause without requireHealthyGuest",
  });
}

async function freeze(
  context: Services & History & Registry,
  entry: SandboxEntry,
  pause: Pause & { readonly isDaemonUnresponsive: boolean },
): Promise<void> {
  let isFrozen = false;
  try {
    await step("pause.cut");
    await entry.container.pause();
    isFrozen = true;
    await step("pause.frozen");
    updateRecord(context, entry, toPaused(context, pause));
  } catch (error) {
    const goesOn = await isThawedAgain(context, entry);
    if (isFrozen && !goesOn) {
      // It is paused: one that counts as running would answer no client, and could not be resumed.
      noteRecord(context, entry, toPaused(context, pause));
      return;
    }
    entry.run = openRun(context, entry.container, entry.record);
    throw error;
  }
}

function toPaused(
  { clock }: Pick<Services, "clock">,
  pause: Pause & { readonly isDaemonUnresponsive: boolean },
): Partial<SandboxRecord> {
  const { reason: pauseReason, leftMs = 0, isDaemonUnresponsive } = pause;
  const endAtMs = clock.now();
  return {
    state: "paused",
    hasMemory: true,
    endAtMs,
    isDaemonUnresponsive,
    pauseReason,
    leftMs,
  };
}

async function isThawedAgain(context: Services, entry: SandboxEntry): Promise<boolean> {
  try {
    await entry.container.resume();
    return true;
  } catch (error) {
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.pause", sandboxId, err: error }, "pause is not taken back");
    return false;
  }
}

/** A halt that failed half way has no way back, and is safe to repeat: it may still come about. */
const HALT_RETRY_MS = 1_000;
/** A request for the pause waits as long. */
const MAX_HALT_RETRIES = 20;

/** @throws what the last attempt failed with, or that the service ends: its next start finishes it. */
async function haltPatiently(context: Services, { container, record }: SandboxEntry) {
  for (let retries = 0; ; retries += 1) {
    try {
      await container.halt();
      return;
    } catch (error) {
      if (!container.isHalted || retries >= MAX_HALT_RETRIES) throw error;
      const { sandboxId } = record;
      context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "halt is tried again");
      await context.clock.sleep(HALT_RETRY_MS, context.closing);
    }
  }
}

/** Should its container be halted in part for good, the sandbox ends. */
async function halt(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  pauseReason: PauseReason,
): Promise<void> {
  entry.follower?.[Symbol.dispose]();
  entry.follower = undefined;
  try {
    await haltPatiently(context, entry);
    await step("pause.halted");
  } catch (error) {
    if (!entry.container.isHalted) {
      entry.run = openRun(context, entry.container, entry.record);
      followEntry(context, entry, { isInitialized: true });
      throw error;
    }
    if (context.closing.aborted) throw error;
    // It waits for this change to be over.
    void endEntry(context, entry, "pause failed").catch((fault: unknown) => {
      const { sandboxId } = entry.record;
      context.log.error({ op: "sandbox.end", sandboxId, err: fault }, "sandbox left traces");
    });
    throw error;
  }
  const endAtMs = context.clock.now();
  noteRecord(context, entry, { state: "paused", hasMemory: false, endAtMs, pauseReason });
}
