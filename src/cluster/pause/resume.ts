/** Starts the Pod of a paused sandbox anew, from the image of its files: the same id, the same tokens. */

import { randomUUID } from "node:crypto";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import { atCapacity } from "../../sandboxes/team-quota.ts";
import { checkTimeout, expiryOfRun } from "../../sandboxes/timeout.ts";
import { networkSchema } from "../../wire/control.ts";
import { sandboxAlreadyRunning, tooManySandboxes } from "../../wire/messages.ts";
import { isConflict } from "../api/api.ts";
import type { Pod } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { planEgress } from "../egress-policy.ts";
import { extendSandbox } from "../expiry.ts";
import { missingAbility } from "../missing-abilities.ts";
import { bootPod, START_TIMEOUT_MS, toLateFault, toStartFault } from "../pods/boot-pod.ts";
import { toPlan } from "../pods/pool.ts";
import {
  changeRecord,
  isKnown,
  readRecord,
  touchRecord,
  type KnownSandbox,
  type SandboxChange,
} from "../records.ts";
import { isKnownSnapshot, readSnapshot } from "../snapshots/records.ts";
import { findClaims } from "../volumes/mounts.ts";
import { beginChange, isOwn, newChange, type Subject } from "./change.ts";
import { removePod } from "./remove-pod.ts";

export interface PodResume {
  readonly timeoutSeconds: number;
  /** A new policy for the next expiry; undefined keeps the old one. */
  readonly pausesAtTimeout?: boolean | undefined;
}

/** Starts it if it is paused; the expiry of one that runs is extended, never shortened. */
export async function connectPod(
  context: ClusterContext,
  subject: Subject,
  resume: PodResume,
): Promise<{ readonly stored: KnownSandbox; readonly wasResumed: boolean }> {
  checkTimeout(resume.timeoutSeconds);
  const { stored, change } = await begin(context, subject, () => undefined);
  if (change !== undefined) {
    return { stored: await carryOut(context, { stored, change }, resume), wasResumed: true };
  }
  const extended = await extendSandbox(context, subject, resume.timeoutSeconds);
  return { stored: extended, wasResumed: false };
}

/** Starts a paused one only; a call that comes while that is under way gets its result. */
export async function resumePod(
  context: ClusterContext,
  subject: Subject,
  resume: PodResume,
): Promise<KnownSandbox> {
  checkTimeout(resume.timeoutSeconds);
  const { stored, change } = await begin(context, subject, () => {
    if (context.snapshots === undefined) throw missingAbility("pause");
    throw new SandboxError("failed_precondition", sandboxAlreadyRunning(subject.sandboxId));
  });
  return change === undefined ? stored : carryOut(context, { stored, change }, resume);
}

async function begin(context: ClusterContext, subject: Subject, refuse: () => undefined) {
  return beginChange(context, subject, ({ record }, hasWaited) => {
    if (record.state !== "paused") return hasWaited ? undefined : refuse();
    if (context.snapshots === undefined) throw missingAbility("pause");
    requirePlace(context, subject.team);
    return newChange(context, { kind: "resuming" });
  });
}

/** Paused ones count at creation already; a front with another flag may allow fewer. */
function requirePlace({ records, quota, maxSandboxes }: ClusterContext, team: string): void {
  const running = [...records.items.values()].filter(
    ({ record, change }) => record?.state === "running" || change?.kind === "resuming",
  );
  if (running.length < maxSandboxes) return;
  const own = running.filter(({ record }) => record?.team === team).length;
  const shares = quota.sharesOf(team);
  throw atCapacity(tooManySandboxes({ ...shares, own, maxSandboxes, countsPaused: false }));
}

async function carryOut(
  context: ClusterContext,
  { stored, change }: { readonly stored: KnownSandbox; readonly change: SandboxChange },
  resume: PodResume,
): Promise<KnownSandbox> {
  const { sandboxId } = stored.record;
  const beganMs = performance.now();
  // That of the last run, whose end takes a moment; one that comes from now on is not removed.
  const before = context.pods.items.get(sandboxId);
  const late = signalAfter(START_TIMEOUT_MS);
  const signal = anySignal([context.closing, late]);
  try {
    await step("pod.resuming");
    const running = await start(context, stored, { before, resume, signal });
    context.records.apply(running);
    await step("pod.resumed");
    const durationMs = Math.round(performance.now() - beganMs);
    const fields = { op: "sandbox.resume", sandboxId, durationMs, outcome: "ok" };
    context.log.info(fields, "sandbox.resume ok");
    return running;
  } catch (error) {
    const isLate = late.aborted && !context.closing.aborted;
    const fault = isLate ? toLateFault(context, sandboxId, error) : error;
    await undo(context, sandboxId, change);
    throw toStartFault(fault);
  }
}

interface StartOptions {
  readonly before: Pod | undefined;
  readonly resume: PodResume;
  readonly signal: AbortSignal;
}

async function start(
  context: ClusterContext,
  stored: KnownSandbox,
  { before, resume, signal }: StartOptions,
): Promise<KnownSandbox> {
  const { api, pods } = context;
  const { sandboxId, network, allowsInternet } = stored.record;
  const mounts = await findClaims(context, stored.record);
  const plan = { ...toPlan(context, await findImage(context, stored)), mounts };
  const rules = networkSchema.parse(network ?? {});
  const egress = planEgress(context.egress, {
    network: rules,
    allowsInternet: allowsInternet ?? undefined,
  });
  if (before !== undefined) {
    await removePod(api, before);
    const findEnd = (pod: Pod | undefined) =>
      pod?.metadata.uid === before.metadata.uid ? undefined : "gone";
    await pods.until(sandboxId, findEnd, signal);
  }
  const record = { ...stored.record, bootId: randomUUID() };
  const level = await bootPod(context, { stored: { ...stored, record }, plan, egress }, signal);
  const startedAtMs = context.clock.now();
  return changeRecord(api, stored, {
    state: "running",
    hasMemory: true,
    bootId: record.bootId,
    pauseReason: null,
    startedAtMs,
    endAtMs: expiryOfRun(resume.timeoutSeconds, startedAtMs),
    pausesAtTimeout: resume.pausesAtTimeout ?? record.pausesAtTimeout,
    level,
    change: null,
  });
}

async function findImage({ api, snapshots }: ClusterContext, { record }: KnownSandbox) {
  const found = await readSnapshot(api, record.buildId);
  if (!isKnownSnapshot(found) || found.snapshot.state !== "ready") {
    throw new SandboxError("unavailable", "the image of the paused sandbox is gone");
  }
  const { kind, team, sourceSandboxId } = found.snapshot;
  // A record that was edited by hand could name the files of another team.
  if (kind !== "pause" || team !== record.team || sourceSandboxId !== record.sandboxId) {
    throw new SandboxError("unavailable", "the image of the paused sandbox is that of another one");
  }
  // What its daemon is told of its user comes from there.
  snapshots?.apply(found);
  return found.snapshot.image;
}

/** It is paused as before; a start that counts after all is left as it is. */
async function undo(
  context: ClusterContext,
  sandboxId: string,
  change: SandboxChange,
): Promise<void> {
  // A later run has another one.
  const pod = context.pods.items.get(sandboxId);
  const work = async () => {
    const stored = await readRecord(context.api, sandboxId);
    if (!isKnown(stored) || !isOwn(stored, change)) return;
    // The start may still be carried out: from now on it cannot count, and its Pod is of no use.
    const touched = await touchRecord(context.api, stored);
    if (pod !== undefined) await removePod(context.api, pod);
    context.records.apply(await changeRecord(context.api, touched, { change: null }));
  };
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.resume", sandboxId, err: error }, "resume left traces");
    context.retry(`resume of ${sandboxId}`, work);
  }
}

/**
 * Of a front that died. The record says first who undoes it: a front that lives after all can then commit
 * no start whose Pod is being removed.
 */
export async function undoResume(context: ClusterContext, seen: KnownSandbox): Promise<void> {
  const change = newChange(context, { kind: "resuming" });
  try {
    context.records.apply(await changeRecord(context.api, seen, { change }));
  } catch (error) {
    if (isConflict(error)) return;
    // It may have been written all the same.
    await undo(context, seen.record.sandboxId, change);
    throw error;
  }
  await undo(context, seen.record.sandboxId, change);
}
