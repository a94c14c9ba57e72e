/** Resumes a paused sandbox, or extends the expiry of a running one. */

import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { sandboxAlreadyRunning, sandboxMissing, tooManySandboxes } from "../../wire/messages.ts";
import type { SandboxContext, SandboxEntry, Services, Registry, Limits } from "../context.ts";
import {
  changeState,
  openRun,
  requireNotEnding,
  requireEntry,
  inTransition,
  whenIdle,
  updateRecord,
} from "../registry.ts";
import { toSandbox, type Sandbox } from "../sandbox.ts";
import { atCapacity } from "../team-quota.ts";
import { checkTimeout, expiryAfter, rebaseRun } from "../timeout.ts";
import { bootEntry, restoreEntry, thaw, type ResumeOptions } from "./resume-run.ts";

export interface Connected {
  readonly sandbox: Sandbox;
  /** False when it ran already. */
  readonly wasResumed: boolean;
}

/**
 * Resumes a paused sandbox; the expiry of a running one is extended, never shortened.
 * @throws SandboxError not_found, or failed_precondition while it is being killed.
 */
export async function connectSandbox(
  context: SandboxContext,
  sandboxId: string,
  options: ResumeOptions,
): Promise<Connected> {
  checkTimeout(options.timeoutSeconds);
  const entry = requireNotEnding(context, sandboxId);
  return whenIdle(entry, async () => {
    // It may have been ended, by request or by its time, while this call waited.
    if (entry.ending !== undefined) throw inTransition(sandboxId, "killing");
    const wasResumed = entry.phase === "paused";
    if (wasResumed) await resumeEntry(context, entry, options);
    else extend(context, entry, options.timeoutSeconds);
    return { sandbox: toSandbox(entry, context.secrets), wasResumed };
  });
}

function extend(context: Services & Registry, entry: SandboxEntry, seconds: number): void {
  rebaseRun(context, entry);
  const { startedAtMs, endAtMs } = entry.record;
  const wantedMs = expiryAfter(context, seconds, startedAtMs);
  if (wantedMs > endAtMs) updateRecord(context, entry, { endAtMs: wantedMs });
}

/**
 * Resumes a paused sandbox only. Calls that come while a resume is under way get its result, except
 * those that ask for a start from disk, which the resume under way may not be.
 * @throws SandboxError not_found, or failed_precondition when it runs.
 */
export async function resumeSandbox(
  context: SandboxContext,
  sandboxId: string,
  options: ResumeOptions,
): Promise<Sandbox> {
  checkTimeout(options.timeoutSeconds);
  const entry = requireEntry(context, sandboxId);
  if (entry.phase === "snapshotting") {
    throw new SandboxError(
      "failed_precondition",
      `Sandbox snapshot is currently being created for sandbox '${sandboxId}'`,
    );
  }
  const isJoining = entry.phase !== "running" && options.keepsMemory;
  return whenIdle(entry, async () => {
    if (entry.ending !== undefined) {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    if (entry.phase !== "paused") {
      if (isJoining) return toSandbox(entry, context.secrets);
      throw new SandboxError("failed_precondition", sandboxAlreadyRunning(sandboxId));
    }
    await resumeEntry(context, entry, options);
    return toSandbox(entry, context.secrets);
  });
}

/** Resumes a paused entry; only for callers that found no change under way. */
export async function resumeEntry(
  context: SandboxContext,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  const { sandboxId } = entry.record;
  requireQuota(context, entry.record.team);
  requireResponsive(entry, options);
  await changeState(context, { entry, during: "resuming" }, async () => {
    const goesOn = entry.record.hasMemory && options.keepsMemory;
    if (!goesOn) await bootEntry(context, entry, options);
    else if (entry.container.isHalted) await restoreEntry(context, entry, options);
    else await thaw(context, entry, options);
    entry.run = openRun(context, entry.container, entry.record);
    return "running";
  });
  context.logBook.note(entry.record, "Sandbox resumed");
  await step("resume.committed");
  context.log.info({ op: "sandbox.resume", sandboxId, outcome: "ok" }, "sandbox.resume ok");
}

/** Its memory would bring back a daemon that does not answer. */
function requireResponsive({ record }: SandboxEntry, { keepsMemory }: ResumeOptions): void {
  if (!record.hasMemory || !record.isDaemonUnresponsive || !keepsMemory) return;
  const message = `the daemon of sandbox '${record.sandboxId}' did not answer when it was paused`;
  throw new SandboxError("failed_precondition", message, {
    word: "sandbox_snapshot_guest_agent_unresponsive",
    hint: "connect with memory: false, which starts new processes on its files",
  });
}

/** Paused ones count at creation already; a service started anew may allow fewer. */
function requireQuota(
  { entries, maxSandboxes, quota: places }: Registry & Limits,
  team: string,
): void {
  const running = [...entries.values()].filter(
    ({ run, phase }) => run !== undefined || phase === "resuming",
  );
  if (running.length < maxSandboxes) return;
  const own = running.filter(({ record }) => record.team === team).length;
  const shares = places.sharesOf(team);
  throw atCapacity(tooManySandboxes({ ...shares, own, maxSandboxes, countsPaused: false }));
}
