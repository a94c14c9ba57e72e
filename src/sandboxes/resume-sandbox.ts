/** Resumes a paused sandbox, or extends the expiry of a running one. */

import { randomUUID } from "node:crypto";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { SandboxRecord } from "../store/store.ts";
import { sandboxAlreadyRunning, sandboxMissing, tooManySandboxes } from "../wire/messages.ts";
import { awaitHealth, initDaemon, toInit, toSpec } from "./boot.ts";
import type {
  SandboxContext,
  SandboxEntry,
  Services,
  History,
  Folders,
  Tenant,
  Registry,
  Limits,
} from "./context.ts";
import { requireDiskSpace } from "./disk-space.ts";
import {
  changeState,
  openRun,
  requireNotEnding,
  requireEntry,
  inTransition,
  whenIdle,
  noteRecord,
  updateRecord,
  followEntry,
  requireBuild,
  setDeadline,
} from "./registry.ts";
import { toSandbox, type Sandbox } from "./sandbox.ts";
import { startTemplateService } from "./start-command.ts";
import { atCapacity } from "./team-quota.ts";
import { checkTimeout, expiryAfter, expiryOfRun, rebaseRun } from "./timeout.ts";
import { mountVolumes } from "./volumes.ts";

export interface ResumeOptions {
  readonly timeoutSeconds: number;
  /** False asks for a start from disk, also where memory was kept. */
  readonly keepsMemory: boolean;
  /** A new policy for the next expiry; undefined keeps the old one. */
  readonly pausesAtTimeout?: boolean | undefined;
}

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
  requireQuota(context);
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

async function thaw(
  context: Services & History,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  await entry.container.resume();
  try {
    await step("resume.thawed");
    updateRecord(context, entry, toRunning(context, entry, options));
  } catch (error) {
    await entry.container.pause();
    throw error;
  }
  followEntry(context, entry, { isInitialized: false });
}

/** A fresh start on the files; should it fail, the files are still there. */
async function bootEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  const { container } = entry;
  if (!container.isHalted) {
    entry.follower?.[Symbol.dispose]();
    entry.follower = undefined;
    await container.halt();
    updateRecord(context, entry, { hasMemory: false });
  }
  const build = requireBuild(context, entry.record);
  const record = { ...entry.record, bootId: randomUUID() };
  try {
    await mountVolumes(context, record.volumeMounts);
    await container.boot(toSpec(context, record, build), context.closing);
    await step("boot.started");
    await initDaemon(container, toInit(context, record, build), context.closing);
    await step("boot.told");
    await awaitHealth(container, context.closing);
    await step("boot.healthy");
    await startTemplateService(context, { container, record, build }, context.closing);
    const { bootId } = record;
    updateRecord(context, entry, {
      ...toRunning(context, entry, options),
      hasMemory: true,
      bootId,
    });
  } catch (error) {
    await container.halt();
    noteLostMemory(context, entry);
    throw toBootFault(error);
  }
  followEntry(context, entry, { isInitialized: true });
}

/** Programs go on from the memory beside the disk; where that cannot be restored it stays there. */
async function restoreEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  const { container, record } = entry;
  await requireDiskSpace(context.directory);
  const spec = toSpec(context, record, requireBuild(context, record));
  const running = toRunning(context, entry, options);
  // Without a service the guardian leaves it alone: a kernel that is starting cannot be paused.
  setDeadline(container, { ...record, ...running });
  try {
    // It is not ended half way with the service: what programs did by then would not be known.
    const signal = new AbortController().signal;
    await container.boot({ ...spec, memory: container.savedMemory }, signal);
  } catch (error) {
    setDeadline(container, record);
    noteLostMemory(context, entry);
    throw toRestoreFault(error);
  }
  await step("restore.started");
  try {
    updateRecord(context, entry, running);
  } catch (error) {
    await container.pause();
    throw error;
  }
  // The daemon has its token; it is told the time.
  followEntry(context, entry, { isInitialized: false });
}

/** Programs may have run on the files since: from the next start on they begin anew. */
function noteLostMemory(context: Services & History & Registry, entry: SandboxEntry): void {
  const { container, record } = entry;
  if (!container.isHalted || container.savedMemory !== undefined || !record.hasMemory) return;
  context.logBook.note(record, "Memory is lost, files are kept");
  noteRecord(context, entry, { hasMemory: false });
}

function toRestoreFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox restore");
  if (fault.word !== "sandbox_memory_not_restorable") return fault;
  const { code, message, word } = fault;
  const hint = "connect with memory: false, which starts new processes on its files";
  return new SandboxError(code, message, { word, hint, cause: fault });
}

/** What its programs made of its files is the reason, not what the client asked for. */
function toBootFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox boot");
  if (fault.code !== "invalid_argument") return fault;
  const message = `sandbox cannot start from its files: ${fault.message}`;
  return new SandboxError("failed_precondition", message, { cause: fault, hasSandboxPaths: true });
}

function toRunning(
  context: Services,
  entry: SandboxEntry,
  options: ResumeOptions,
): Partial<SandboxRecord> {
  const startedAtMs = context.clock.now();
  return {
    state: "running",
    isDaemonUnresponsive: false,
    pauseReason: null,
    leftMs: 0,
    startedAtMs,
    endAtMs: expiryOfRun(options.timeoutSeconds, startedAtMs),
    pausesAtTimeout: options.pausesAtTimeout ?? entry.record.pausesAtTimeout,
  };
}

/** Paused ones count at creation already; a service started anew may allow fewer. */
function requireQuota({
  entries,
  maxSandboxes,
  quota: places,
  team,
}: Tenant & Registry & Limits): void {
  const running = [...entries.values()].filter(({ run }) => run !== undefined);
  if (running.length < maxSandboxes) return;
  const own = running.filter(({ record }) => record.team === team).length;
  const message = tooManySandboxes({ ...places.sharesOf(team), own, maxSandboxes });
  throw atCapacity(message);
}
