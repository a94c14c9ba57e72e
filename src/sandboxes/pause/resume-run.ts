/** The ways of a paused sandbox to a new run: thawed, restored from its memory on disk, or booted on its files. */

import { randomUUID } from "node:crypto";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { awaitHealth, initDaemon, toInit, toSpec } from "../boot/boot.ts";
import { startTemplateService } from "../boot/start-command.ts";
import type { Folders, History, Registry, SandboxEntry, Services } from "../context.ts";
import { toDiskFault } from "../disks/disk-space.ts";
import { followEntry, noteRecord, requireBuild, setDeadline, updateRecord } from "../registry.ts";
import { requireSpace } from "../template-builds/free-space.ts";
import { expiryOfRun } from "../timeout.ts";
import { mountVolumes } from "../volumes/volumes.ts";

export interface ResumeOptions {
  readonly timeoutSeconds: number;
  /** False asks for a start from disk, also where memory was kept. */
  readonly keepsMemory: boolean;
  /** A new policy for the next expiry; undefined keeps the old one. */
  readonly pausesAtTimeout?: boolean | undefined;
}

/** Its programs go on where they were frozen. */
export async function thaw(
  context: Services & History & Registry,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  await entry.container.resume();
  const running = toRunning(context, entry, options);
  await recordRun(context, entry, { running, announce: () => step("resume.thawed") });
  followEntry(context, entry, { isInitialized: false });
}

/**
 * Without a record its programs are frozen again. Where they cannot be, they run, with a time to live,
 * and the record is written later: a sandbox that counts as paused would run without any end.
 */
async function recordRun(
  context: Services & Registry,
  entry: SandboxEntry,
  next: { readonly running: Partial<SandboxRecord>; readonly announce: () => Promise<void> },
): Promise<void> {
  try {
    await next.announce();
    updateRecord(context, entry, next.running);
  } catch (error) {
    if (await isFrozenAgain(context, entry)) throw error;
    noteRecord(context, entry, next.running);
  }
}

async function isFrozenAgain(context: Services, entry: SandboxEntry): Promise<boolean> {
  try {
    await entry.container.pause();
    return true;
  } catch (error) {
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.resume", sandboxId, err: error }, "resume is not taken back");
    return false;
  }
}

/** A fresh start on the files; should it fail, the files are still there. */
export async function bootEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  const { container } = entry;
  if (!container.isHalted) await dropMemory(context, entry);
  const build = requireBuild(context, entry.record);
  const record = { ...entry.record, bootId: randomUUID() };
  const hadMemory = container.savedMemory !== undefined;
  // A service that dies before the new run is on record leaves a container that is to be halted again.
  if (entry.record.hasMemory) updateRecord(context, entry, { hasMemory: false });
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
    // Before the halt, which gives back what the start has taken.
    const fault = await toDiskFault(error, context.directory);
    try {
      await container.halt();
    } finally {
      // Also where the halt fails, as on a full disk: what is there decides.
      if (hadMemory) noteMemory(context, entry);
    }
    throw toBootFault(fault);
  }
  followEntry(context, entry, { isInitialized: true });
}

/** After a boot that failed: its memory on disk is that of its files as long as no program ran. */
function noteMemory(context: Services & History & Registry, entry: SandboxEntry): void {
  if (entry.container.savedMemory === undefined) context.logBook.note(entry.record, MEMORY_LOST);
  else noteRecord(context, entry, { hasMemory: true });
}

/** Ends what was frozen. A halt that failed half way has ended it too. */
async function dropMemory(context: Services & Registry, entry: SandboxEntry): Promise<void> {
  entry.follower?.[Symbol.dispose]();
  entry.follower = undefined;
  try {
    await entry.container.halt();
  } finally {
    if (entry.container.isHalted) noteRecord(context, entry, { hasMemory: false });
  }
}

/** Programs go on from the memory beside the disk; where that cannot be restored it stays there. */
export async function restoreEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  options: ResumeOptions,
): Promise<void> {
  const { container, record } = entry;
  await requireSpace(context);
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
    throw toRestoreFault(await toDiskFault(error, context.directory));
  }
  await recordRun(context, entry, { running, announce: () => step("restore.started") });
  // The daemon has its token; it is told the time.
  followEntry(context, entry, { isInitialized: false });
}

const MEMORY_LOST = "Memory is lost, files are kept";

/** Programs may have run on the files since: from the next start on they begin anew. */
function noteLostMemory(context: Services & History & Registry, entry: SandboxEntry): void {
  const { container, record } = entry;
  if (!container.isHalted || container.savedMemory !== undefined || !record.hasMemory) return;
  context.logBook.note(record, MEMORY_LOST);
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

const MS_PER_S = 1_000;

function toRunning(
  context: Services,
  entry: SandboxEntry,
  options: ResumeOptions,
): Partial<SandboxRecord> {
  const startedAtMs = context.clock.now();
  const { leftMs } = entry.record;
  return {
    state: "running",
    isDaemonUnresponsive: false,
    pauseReason: null,
    leftMs: 0,
    startedAtMs,
    // The rest of a life that the service interrupted is not taken away by a client that asks for less.
    endAtMs: expiryOfRun(
      Math.max(options.timeoutSeconds, Math.ceil(leftMs / MS_PER_S)),
      startedAtMs,
    ),
    pausesAtTimeout: options.pausesAtTimeout ?? entry.record.pausesAtTimeout,
  };
}
