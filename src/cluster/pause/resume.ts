/** Starts the Pod of a paused sandbox anew, from the image of its files: the same id, the same tokens. */

import { randomUUID } from "node:crypto";
import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { atCapacity } from "../../sandboxes/team-quota.ts";
import { checkTimeout, expiryOfRun } from "../../sandboxes/timeout.ts";
import { networkSchema } from "../../wire/control.ts";
import { sandboxAlreadyRunning, tooManySandboxes } from "../../wire/messages.ts";
import { isConflict } from "../api.ts";
import { bootPod, START_TIMEOUT_MS, toLateFault, toStartFault } from "../boot-pod.ts";
import { cannot } from "../cannot.ts";
import type { ClusterContext } from "../context.ts";
import { planEgress } from "../egress-policy.ts";
import { extendSandbox } from "../expiry.ts";
import { toPlan } from "../pool.ts";
import { changeRecord, isKnown, readRecord, removeObject, type KnownSandbox } from "../records.ts";
import { isKnownSnapshot, readSnapshot } from "../snapshots/records.ts";
import { findClaims } from "../volumes/mounts.ts";
import { beginChange, isOwn, type Subject } from "./change.ts";

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
  const { stored, isBegun } = await begin(context, subject, () => undefined);
  if (isBegun) return { stored: await carryOut(context, stored, resume), wasResumed: true };
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
  const { stored, isBegun } = await begin(context, subject, () => {
    if (context.snapshots === undefined) throw cannot("pause");
    throw new SandboxError("failed_precondition", sandboxAlreadyRunning(subject.sandboxId));
  });
  return isBegun ? carryOut(context, stored, resume) : stored;
}

async function begin(context: ClusterContext, subject: Subject, refuse: () => undefined) {
  const change = { kind: "resuming", owner: context.fronts.name } as const;
  return beginChange(context, subject, ({ record }, hasWaited) => {
    if (record.state !== "paused") return hasWaited ? undefined : refuse();
    if (context.snapshots === undefined) throw cannot("pause");
    requirePlace(context, subject.team);
    return change;
  });
}

/** Paused ones count at creation already; a front with another flag may allow fewer. */
function requirePlace({ records, quota, maxSandboxes }: ClusterContext, team: string): void {
  const running = [...records.items.values()].filter(({ record }) => record?.state === "running");
  if (running.length < maxSandboxes) return;
  const own = running.filter(({ record }) => record?.team === team).length;
  throw atCapacity(tooManySandboxes({ ...quota.sharesOf(team), own, maxSandboxes }));
}

async function carryOut(
  context: ClusterContext,
  stored: KnownSandbox,
  resume: PodResume,
): Promise<KnownSandbox> {
  const { sandboxId } = stored.record;
  const beganMs = performance.now();
  const late = AbortSignal.timeout(START_TIMEOUT_MS);
  const signal = AbortSignal.any([context.closing, late]);
  try {
    await step("pod.resuming");
    const running = await start(context, stored, { resume, signal });
    context.records.apply(running);
    await step("pod.resumed");
    const durationMs = Math.round(performance.now() - beganMs);
    const fields = { op: "sandbox.resume", sandboxId, durationMs, outcome: "ok" };
    context.log.info(fields, "sandbox.resume ok");
    return running;
  } catch (error) {
    const isLate = late.aborted && !context.closing.aborted;
    const fault = isLate ? toLateFault(context, sandboxId, error) : error;
    await undo(context, sandboxId);
    throw toStartFault(fault);
  }
}

async function start(
  context: ClusterContext,
  stored: KnownSandbox,
  { resume, signal }: { readonly resume: PodResume; readonly signal: AbortSignal },
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
  // That of its last run, whose end takes a moment.
  await removeObject(api, `pods/${sandboxId}`);
  await pods.until(sandboxId, (pod) => (pod === undefined ? "gone" : undefined), signal);
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
  // What its daemon is told of its user comes from there.
  snapshots?.apply(found);
  return found.snapshot.image;
}

/** It is paused as before; a start that counts after all is left as it is. */
async function undo(context: ClusterContext, sandboxId: string): Promise<void> {
  const work = async () => {
    const stored = await readRecord(context.api, sandboxId);
    if (isKnown(stored) && isOwn(context, stored, "resuming")) await undoResume(context, stored);
  };
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.resume", sandboxId, err: error }, "resume left traces");
    context.retry(`resume of ${sandboxId}`, work);
  }
}

/** Also of a front that died: of two that do so, one succeeds. */
export async function undoResume(context: ClusterContext, stored: KnownSandbox): Promise<void> {
  await removeObject(context.api, `pods/${stored.record.sandboxId}`);
  try {
    context.records.apply(await changeRecord(context.api, stored, { change: null }));
  } catch (error) {
    if (!isConflict(error)) throw error;
  }
}
