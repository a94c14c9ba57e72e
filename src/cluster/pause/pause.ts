/**
 * Pauses a sandbox that is a Pod: its programs stop, its files become an image, and then its Pod goes.
 * The record says that a pause is under way, then that it is done; only the image carries the files on.
 */

import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import { sandboxAlreadyPaused } from "../../wire/messages.ts";
import { isConflict } from "../api/api.ts";
import { addressOf, type Pod } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { missingAbility } from "../missing-abilities.ts";
import { askDaemon } from "../pods/ask-daemon.ts";
import {
  changeRecord,
  isKnown,
  readRecord,
  touchRecord,
  type KnownSandbox,
  type SandboxChange,
} from "../records.ts";
import { awaitImages } from "../snapshots/await-images.ts";
import {
  isBusy,
  releaseSnapshot,
  requireRegistry,
  TAKE_TIMEOUT_MS,
  takeInPlace,
} from "../snapshots/take.ts";
import { beginChange, foresee, isOwn, newChange, type Decide, type Subject } from "./change.ts";
import { removePod } from "./remove-pod.ts";

/** Programs have ten seconds to stop. */
const ORDER_TIMEOUT_MS = 20_000;
/**
 * A daemon that does not let its programs go on for so long never will: root inside can make it so, and a
 * sandbox that stays amid a pause would outlive its time.
 */
const GO_ON_PATIENCE_MS = 600_000;

/** A client waits so long for an image of its sandbox that another front makes. */
const IMAGE_WAIT_MS = 120_000;
const MAX_BUSY_ROUNDS = 3;

type PauseReason = NonNullable<SandboxChange["reason"]>;

export interface PauseRequest {
  readonly reason: PauseReason;
  /** Called when other images leave it a place, each time. */
  readonly onPlace?: () => void;
}

/**
 * Resolves when it is paused and its Pod was ordered to end. After a fault it runs on as before; so it does
 * while it waits for a place, and for another image of its sandbox.
 * @throws SandboxError not_found, failed_precondition when it is paused already, unavailable,
 * unimplemented
 */
export async function pausePod(
  context: ClusterContext,
  subject: Subject,
  request: PauseRequest,
): Promise<void> {
  if (context.snapshots === undefined) throw missingAbility("pause");
  const { reason } = request;
  let wasRunning = false;
  let isPaused = false;
  const decide: Decide = ({ record }, hasWaited) => {
    // Its client may have given it more time.
    const isEarly = reason === "timeout" && record.endAtMs > context.clock.now();
    if (record.state === "running") {
      wasRunning = true;
      return isEarly ? undefined : newChange(context, { kind: "pausing", reason });
    }
    if (hasWaited || wasRunning) return undefined;
    isPaused = true;
    throw new SandboxError("failed_precondition", sandboxAlreadyPaused(subject.sandboxId));
  };
  try {
    await pauseInTurn(context, subject, { ...request, decide });
  } catch (error) {
    throw isPaused ? error : toPauseFault(error);
  }
}

async function pauseInTurn(
  context: ClusterContext,
  subject: Subject,
  { reason, decide, onPlace }: PauseRequest & { readonly decide: Decide },
): Promise<void> {
  const { sandboxId } = subject;
  const isPatient = reason === "timeout";
  const { team } = subject;
  const applicant = { team, key: sandboxId, signal: context.closing, isPatient };
  for (let round = 1; ; round += 1) {
    if (!(await foresee(context, subject, decide))) return;
    await awaitImages(context, sandboxId, isPatient ? TAKE_TIMEOUT_MS : IMAGE_WAIT_MS);
    try {
      await context.takeGate.run(applicant, async () => {
        onPlace?.();
        const { stored, change } = await beginChange(context, subject, decide);
        if (change === undefined) return;
        await carryOut(context, stored, toPausing(context, sandboxId, change));
      });
      return;
    } catch (error) {
      // Another front was faster, with an image that was not seen here yet.
      if (!isBusy(error) || round >= MAX_BUSY_ROUNDS) throw error;
    }
  }
}

/** E2B's clients read 409 as paused already, and tell no fault: it has no other meaning here. */
function toPauseFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox pause");
  if (!isConflict(fault) && fault.code !== "already_exists") return fault;
  const hint = fault.hint === undefined ? {} : { hint: fault.hint };
  return new SandboxError("unavailable", fault.message, { cause: fault, ...hint });
}

/** Goes on with the pause of a front that died. Its record says so before it waits for a place. */
export async function takeOverPause(context: ClusterContext, seen: KnownSandbox): Promise<void> {
  if (seen.change === undefined) return;
  const { kind, reason } = seen.change;
  const change = newChange(context, { kind, reason });
  const { resourceVersion } = seen.metadata;
  const pausing = { ...toPausing(context, seen.record.sandboxId, change), resourceVersion };
  let stored: KnownSandbox;
  try {
    stored = await changeRecord(context.api, seen, { change });
  } catch (error) {
    // It may have been written all the same, or will be.
    if (!isConflict(error)) await undo(context, pausing, undefined);
    throw error;
  }
  context.records.apply(stored);
  const { team, sandboxId } = stored.record;
  // What it goes on with may still have a place here, of a front that was taken for dead for a moment.
  const key = `${sandboxId} taken over`;
  const applicant = { team, key, signal: context.closing, isPatient: true };
  await context.takeGate.run(applicant, async () => carryOut(context, stored, pausing));
}

/** A pause that this front carries out. */
interface Pausing {
  readonly sandboxId: string;
  readonly change: SandboxChange;
  /** That of the run which is paused: at its end there may be one of the next run. */
  readonly pod: Pod | undefined;
  /** Of the record that may still get the change, where its front died. */
  readonly resourceVersion?: string;
}

function toPausing(
  { pods }: Pick<ClusterContext, "pods">,
  sandboxId: string,
  change: SandboxChange,
): Pausing {
  return { sandboxId, change, pod: pods.items.get(sandboxId) };
}

/** Only for the front that the record names. */
async function carryOut(
  context: ClusterContext,
  stored: KnownSandbox,
  pausing: Pausing,
): Promise<void> {
  const { team } = stored.record;
  let buildId: string | undefined;
  try {
    await step("pod.pausing");
    // Without one there is no reason to stop anything.
    await requireRegistry(context);
    const prepare = async () => {
      await order(context, stored, "/stop");
      await step("pod.stopped");
    };
    ({ buildId } = await takeInPlace(context, { team, stored, kind: "pause", prepare }));
    await commit(context, stored, buildId);
  } catch (error) {
    if (await undo(context, pausing, buildId)) return;
    throw error;
  }
  await finish(context, pausing, buildId);
}

/** It is paused: nothing uses the Pod of its last run any more. */
async function finish(context: ClusterContext, pausing: Pausing, buildId: string): Promise<void> {
  const { sandboxId } = pausing;
  await step("pod.paused");
  context.log.info({ op: "sandbox.pause", sandboxId, outcome: "ok" }, "sandbox.pause ok");
  await releaseSnapshot(context, buildId);
  await parkPod(context, pausing);
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
async function parkPod(context: ClusterContext, { sandboxId, pod }: Pausing): Promise<void> {
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
  const signal = anySignal([context.closing, signalAfter(ORDER_TIMEOUT_MS)]);
  try {
    const dialer = context.runs.dialer(stored, host);
    await askDaemon(dialer, { path, maxBytes: 0, body: {} }, signal);
  } catch (error) {
    if (!hasErrorCode(error, "internal")) throw toSandboxError(error, "sandbox pause");
    const message = "the daemon of the sandbox cannot stop its programs";
    const hint = "one of an older image must be exported again: docs/kubernetes.md";
    throw new SandboxError("unavailable", message, { cause: error, hint });
  }
}

/** Whether the pause counts after all: the answer to its last change may have been lost. */
async function undo(
  context: ClusterContext,
  pausing: Pausing,
  buildId: string | undefined,
): Promise<boolean> {
  const { sandboxId, change } = pausing;
  const patienceMs = GO_ON_PATIENCE_MS * (context.graceShare ?? 1);
  const endsMs = performance.now() + patienceMs;
  const work = async () => {
    const stored = await readRecord(context.api, sandboxId);
    if (isKnown(stored) && buildId !== undefined && stored.record.buildId === buildId) {
      context.records.apply(stored);
      await finish(context, pausing, buildId);
      return true;
    }
    if (isKnown(stored) && stored.record.state === "running" && isOwn(stored, change)) {
      // The pause may still be carried out: from now on it cannot count, whatever programs do.
      const touched = buildId === undefined ? stored : await touchRecord(context.api, stored);
      await goOn(context, touched, endsMs);
    } else if (isKnown(stored) && stored.metadata.resourceVersion === pausing.resourceVersion) {
      await touchRecord(context.api, stored);
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
async function goOn(context: ClusterContext, stored: KnownSandbox, endsMs: number): Promise<void> {
  const { sandboxId } = stored.record;
  const pod = context.pods.items.get(sandboxId);
  const runs = pod !== undefined && addressOf(pod) !== undefined;
  try {
    if (runs) await order(context, stored, "/continue");
  } catch (error) {
    if (performance.now() < endsMs) throw error;
    context.log.warn({ op: "sandbox.pause", sandboxId, err: error }, "programs do not go on");
  }
  context.records.apply(await changeRecord(context.api, stored, { change: null }));
}
