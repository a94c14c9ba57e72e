/** The registry of sandboxes: who is in it, how changes of one take turns, how it enters and ends. */

import assert from "node:assert";
import { SandboxError } from "../common/errors.ts";
import { asChange } from "../common/operation.ts";
import { step } from "../common/steps.ts";
import type { Container } from "../engine/engine.ts";
import type { SandboxRecord, BuildRecord } from "../store/store.ts";
import { sandboxInTransition, sandboxMissing, type Transition } from "../wire/messages.ts";
import { toInit } from "./boot/boot.ts";
import { releaseForkBuild } from "./builds/builds.ts";
import type { SandboxEntry, Tenant, Registry, Services, History, Folders } from "./context.ts";
import { requireKnownEntry } from "./find-entry.ts";
import { followDaemon } from "./logs/follow-daemon.ts";
import { discard } from "./reclaim/discard.ts";
import { beginRun, endpointFacts, type Run } from "./run.ts";
import { servicePortsOf } from "./service-ports.ts";

/** A change may have to wait for others; more rounds than this mean that they never end. */
const MAX_WAITS = 8;

/**
 * @throws SandboxError not_found when it never was, is over or is about to be, unavailable when it is
 * not adopted yet.
 */
export function requireEntry(context: Tenant & Registry, sandboxId: string): SandboxEntry {
  const entry = requireKnownEntry(context, sandboxId);
  if (entry.ending !== undefined) {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  return entry;
}

/**
 * @throws SandboxError not_found when unknown, failed_precondition while it is being killed, unavailable
 * when it is not adopted yet.
 */
export function requireNotEnding(context: Tenant & Registry, sandboxId: string): SandboxEntry {
  const entry = requireKnownEntry(context, sandboxId);
  if (entry.ending !== undefined) throw inTransition(sandboxId, "killing");
  return entry;
}

export function inTransition(sandboxId: string, transition: Transition): SandboxError {
  return new SandboxError("failed_precondition", sandboxInTransition(sandboxId, transition));
}

/**
 * Runs `act` once no change is under way, before another one can begin. The entry may have
 * become anything meanwhile, also over: `act` looks anew.
 * @throws SandboxError unavailable when change follows change without end.
 */
export async function whenIdle<T>(entry: SandboxEntry, act: () => T | Promise<T>): Promise<T> {
  for (let round = 0; round < MAX_WAITS; round += 1) {
    if (entry.change === undefined) return act();
    await entry.change;
  }
  throw new SandboxError("unavailable", `sandbox ${entry.record.sandboxId} stays busy`);
}

/**
 * Makes one change of state. No other one can begin meanwhile; a fault leaves the old phase.
 * `work` returns the new phase.
 */
export async function changeState(
  context: Pick<Registry, "rescheduleExpiry">,
  { entry, during }: { readonly entry: SandboxEntry; readonly during: Transition },
  work: () => Promise<"running" | "paused">,
): Promise<void> {
  assert(entry.change === undefined);
  const before = entry.phase;
  const { promise, resolve } = Promise.withResolvers<void>();
  entry.change = promise;
  entry.phase = during;
  let after = before;
  try {
    // An uncaught error must not leave the sandbox busy for ever.
    after = await asChange(`sandbox.${during}`, work);
  } finally {
    entry.phase = after;
    entry.change = undefined;
    resolve();
    // Its time may have come meanwhile, also where the change failed. In a later turn, because who
    // began the change may end the sandbox after its fault.
    setImmediate(() => {
      const isAtRest = entry.phase === "running" || entry.phase === "paused";
      if (isAtRest && entry.ending === undefined) context.rescheduleExpiry();
    });
  }
}

/** Writes changed fields, durably; after a fault all is as before. */
export function updateRecord(
  context: Services,
  entry: SandboxEntry,
  changes: Partial<SandboxRecord>,
): void {
  try {
    writeRecord(context, entry, changes);
  } catch (error) {
    keepDeadline(context, entry);
    throw error;
  }
}

function writeRecord(
  context: Services,
  entry: SandboxEntry,
  changes: Partial<SandboxRecord>,
): void {
  const record = { ...entry.record, ...changes };
  setDeadline(entry.container, record);
  context.store.sandboxes.put(record);
  entry.record = record;
}

/** The guardian would end a paused sandbox whose resume failed, or freeze one whose pause did. */
function keepDeadline(context: Services, { container, record }: SandboxEntry): void {
  try {
    setDeadline(container, record);
  } catch (error) {
    const { sandboxId } = record;
    context.log.error({ op: "sandbox.record", sandboxId, err: error }, "deadline was not written");
  }
}

/**
 * Tells the guardian what holds for a sandbox without a service, before the record says it. A
 * paused sandbox stays paused. A sandbox whose end was begun is not changed.
 */
export function setDeadline(container: Container, record: SandboxRecord): void {
  const { state, endAtMs, pausesAtTimeout } = record;
  if (state === "paused") container.setDeadline?.({ atMs: 0, action: "freeze" });
  if (state !== "running") return;
  container.setDeadline?.({ atMs: endAtMs, action: pausesAtTimeout ? "freeze" : "end" });
}

/** As `updateRecord`, for what has happened already: a write that fails is retried. */
export function noteRecord(
  context: Services & Registry,
  entry: SandboxEntry,
  changes: Partial<SandboxRecord>,
): void {
  try {
    writeRecord(context, entry, changes);
  } catch (error) {
    entry.record = { ...entry.record, ...changes };
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.record", sandboxId, err: error }, "not written yet");
    context.retry(`record of ${sandboxId}`, async () => {
      const isThere = context.entries.get(sandboxId) === entry && entry.ending === undefined;
      if (isThere) updateRecord(context, entry, {});
    });
  }
}

export function openRun(
  context: Services & History,
  container: Container,
  record: SandboxRecord,
): Run {
  context.meter.note();
  return beginRun(container, {
    ...endpointFacts(record, context.secrets),
    servicePorts: servicePortsOf(context.store, record.templateId),
  });
}

/** Admits a container; should it die by itself, its entry ends too. */
export function addEntry(
  context: Services & Folders & History & Registry,
  container: Container,
  record: SandboxRecord,
): SandboxEntry {
  const entry: SandboxEntry = {
    container,
    record,
    phase: record.state === "paused" ? "paused" : "running",
    change: undefined,
    ending: undefined,
    run: record.state === "paused" ? undefined : openRun(context, container, record),
    follower: undefined,
  };
  context.entries.set(record.sandboxId, entry);
  // Its faults are logged inside.
  void watchExit(context, entry);
  return entry;
}

async function watchExit(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
): Promise<void> {
  const { reason } = await entry.container.exit;
  if (entry.ending !== undefined || context.closing.aborted) return;
  try {
    await endEntry(context, entry, reason);
  } catch (error) {
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.exit", sandboxId, err: error }, "dead sandbox left traces");
  }
}

/** Reads the daemon's log from now on, if it is not read yet. */
export function followEntry(
  context: Services & History,
  entry: SandboxEntry,
  options: { readonly isInitialized: boolean },
): void {
  const { container, record } = entry;
  entry.follower ??= followDaemon(context, {
    container,
    subject: record,
    init: () => toInit(context, record, requireBuild(context, record)),
    isInitialized: options.isInitialized,
  });
}

/** @throws SandboxError internal when the build that a sandbox stands on is gone. */
export function requireBuild(context: Services, record: SandboxRecord): BuildRecord {
  const build = context.store.builds.get(record.buildId);
  if (build === undefined) {
    throw new SandboxError("internal", `build ${record.buildId} of a living sandbox is gone`);
  }
  return build;
}

/**
 * Ends a sandbox for good, after whatever change is under way. Callers join the same end.
 * @throws SandboxError internal when not everything could be removed: the removal is retried, and the
 * sandbox is gone anyway.
 */
export function endEntry(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  reason: string,
): Promise<void> {
  if (entry.ending === undefined) {
    // It is gone for its callers from now on; its removal may take long, or fail at first.
    context.logBook.note(entry.record, "Killing sandbox", { kill_reason: reason });
    entry.ending = end(context, entry, reason);
  }
  return entry.ending;
}

async function remove(
  context: Services,
  entry: SandboxEntry,
  endReason: string,
): Promise<"paused"> {
  entry.run?.end();
  entry.follower?.[Symbol.dispose]();
  await step("kill.cut");
  recordIntent(context, entry, endReason);
  await step("kill.intent");
  await entry.container[Symbol.asyncDispose]();
  // This phase is never seen: the entry leaves the registry right after.
  return "paused";
}

/** A disk that is too full for the intent must not keep a sandbox alive. */
function recordIntent(context: Services, entry: SandboxEntry, endReason: string): void {
  try {
    updateRecord(context, entry, { state: "ending", endReason });
  } catch (error) {
    const { sandboxId } = entry.record;
    context.log.error({ op: "sandbox.end", sandboxId, err: error }, "end could not be recorded");
  }
}

async function end(
  context: Services & Folders & History & Registry,
  entry: SandboxEntry,
  reason: string,
): Promise<void> {
  const { sandboxId } = entry.record;
  try {
    const change = { entry, during: "killing" } as const;
    await whenIdle(entry, () => changeState(context, change, () => remove(context, entry, reason)));
    await step("kill.removed");
    context.store.sandboxes.remove(sandboxId);
    await step("kill.erased");
    await releaseForkBuild(context, entry.record.buildId);
    context.logBook.note(entry.record, "Sandbox stopped", { kill_reason: reason });
    context.log.info({ op: "sandbox.end", sandboxId, reason, outcome: "ok" }, "sandbox.end ok");
  } catch (error) {
    // It cannot be reached any more; what is left of it must not stay.
    context.retry(`end of ${sandboxId}`, () => discard(context, entry.record, reason));
    throw error;
  } finally {
    context.entries.delete(sandboxId);
    context.meter.forget(sandboxId);
  }
}
