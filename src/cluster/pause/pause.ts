/**
 * Pauses a sandbox that is a Pod: its programs stop, its files become an image, and then its Pod goes.
 * The record says that a pause is under way, then that it is done; only the image carries the files on.
 */

import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { sandboxAlreadyPaused } from "../../wire/messages.ts";
import { isCode } from "../api.ts";
import { askDaemon } from "../ask-daemon.ts";
import { cannot } from "../cannot.ts";
import type { ClusterContext } from "../context.ts";
import { addressOf } from "../objects.ts";
import {
  changeRecord,
  isKnown,
  readRecord,
  type KnownSandbox,
  type SandboxChange,
} from "../records.ts";
import { releaseSnapshot, requireRegistry, takeSnapshot } from "../snapshots/take.ts";
import { beginChange, isOwn, type Subject } from "./change.ts";
import { removePod } from "./remove-pod.ts";

/** Programs have ten seconds to stop. */
const ORDER_TIMEOUT_MS = 20_000;

type PauseReason = NonNullable<SandboxChange["reason"]>;

/**
 * Resolves when it is paused and its Pod was ordered to end. After a fault it runs on as before.
 * @throws SandboxError not_found, failed_precondition when it is paused already, unavailable,
 * unimplemented
 */
export async function pausePod(
  context: ClusterContext,
  subject: Subject,
  reason: PauseReason,
): Promise<void> {
  const { sandboxId } = subject;
  if (context.snapshots === undefined) throw cannot("pause");
  const change = { kind: "pausing", owner: context.fronts.name, reason } as const;
  const { stored, isBegun } = await beginChange(context, subject, ({ record }, hasWaited) => {
    // Its client may have given it more time.
    const isEarly = reason === "timeout" && record.endAtMs > context.clock.now();
    if (record.state === "running") return isEarly ? undefined : change;
    if (hasWaited) return undefined;
    throw new SandboxError("failed_precondition", sandboxAlreadyPaused(sandboxId));
  });
  if (isBegun) await carryOut(context, stored);
}

/** Goes on with the pause of a front that died. */
export async function takeOverPause(context: ClusterContext, seen: KnownSandbox): Promise<void> {
  if (seen.change === undefined) return;
  const change = { ...seen.change, owner: context.fronts.name };
  const stored = await changeRecord(context.api, seen, { change });
  context.records.apply(stored);
  await carryOut(context, stored);
}

/** Only for the front that the record names. */
async function carryOut(context: ClusterContext, stored: KnownSandbox): Promise<void> {
  const { sandboxId, team } = stored.record;
  let buildId: string | undefined;
  try {
    await step("pod.pausing");
    // Without one there is no reason to stop anything.
    await requireRegistry(context);
    await order(context, stored, "/stop");
    await step("pod.stopped");
    ({ buildId } = await takeSnapshot(context, { team, stored, kind: "pause" }));
    await commit(context, stored, buildId);
  } catch (error) {
    if (await undo(context, sandboxId, buildId)) return;
    throw error;
  }
  await finish(context, sandboxId, buildId);
}

/** It is paused: nothing uses its Pod any more. */
async function finish(context: ClusterContext, sandboxId: string, buildId: string): Promise<void> {
  await step("pod.paused");
  context.log.info({ op: "sandbox.pause", sandboxId, outcome: "ok" }, "sandbox.pause ok");
  await releaseSnapshot(context, buildId);
  await parkPod(context, sandboxId);
}

async function commit(
  context: ClusterContext,
  stored: KnownSandbox,
  buildId: string,
): Promise<void> {
  const paused = await changeRecord(context.api, stored, {
    state: "paused",
    hasMemory: false,
    buildId,
    endAtMs: context.clock.now(),
    pauseReason: stored.change?.reason ?? "request",
    change: null,
  });
  context.records.apply(paused);
}

/** Removes the Pod of one that is paused; it is done again later should it fail. */
async function parkPod(context: ClusterContext, sandboxId: string): Promise<void> {
  const pod = context.pods.items.get(sandboxId);
  const work = async () => {
    if (pod !== undefined) await removePod(context.api, pod);
    await step("pod.parked");
  };
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "Pod was left");
    context.retry(`Pod of ${sandboxId}`, work);
  }
}

/** Tells the daemon of a Pod that runs to stop the programs, or to let them go on. */
async function order(
  context: ClusterContext,
  stored: KnownSandbox,
  path: "/stop" | "/continue",
): Promise<void> {
  const pod = context.pods.items.get(stored.record.sandboxId);
  const host = pod && addressOf(pod);
  if (host === undefined) {
    throw new SandboxError("unavailable", "the Pod of the sandbox does not run");
  }
  const signal = AbortSignal.any([context.closing, AbortSignal.timeout(ORDER_TIMEOUT_MS)]);
  try {
    const dialer = context.runs.dialer(stored, host);
    await askDaemon(dialer, { path, maxBytes: 0, body: {} }, signal);
  } catch (error) {
    if (!isCode(error, "internal")) throw toSandboxError(error, "sandbox pause");
    const message = "the daemon of the sandbox cannot stop its programs";
    const hint = "one of an older image must be exported again: docs/kubernetes.md";
    throw new SandboxError("unavailable", message, { cause: error, hint });
  }
}

/** Whether the pause counts after all: the answer to its last change may have been lost. */
async function undo(
  context: ClusterContext,
  sandboxId: string,
  buildId: string | undefined,
): Promise<boolean> {
  const work = async () => {
    const stored = await readRecord(context.api, sandboxId);
    if (isKnown(stored) && buildId !== undefined && stored.record.buildId === buildId) {
      context.records.apply(stored);
      await finish(context, sandboxId, buildId);
      return true;
    }
    if (isKnown(stored) && stored.record.state === "running" && isOwn(context, stored, "pausing")) {
      await goOn(context, stored);
    }
    if (buildId !== undefined) await releaseSnapshot(context, buildId);
    return false;
  };
  try {
    return await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "pause is undone later");
    context.retry(`pause of ${sandboxId}`, async () => void (await work()));
    return false;
  }
}

/** Its programs go on first: a sandbox that runs has none that are stopped. */
async function goOn(context: ClusterContext, stored: KnownSandbox): Promise<void> {
  const pod = context.pods.items.get(stored.record.sandboxId);
  if (pod !== undefined && addressOf(pod) !== undefined) await order(context, stored, "/continue");
  context.records.apply(await changeRecord(context.api, stored, { change: null }));
}
