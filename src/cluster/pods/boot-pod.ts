/** The Pod of a sandbox, from its creation until its daemon has been told whom it serves. */

import { setTimeout as delay } from "node:timers/promises";
import { errorText, hasErrorCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { IsolationLevel } from "../../engine/engine.ts";
import { initDaemon, toRefusedStart } from "../../sandboxes/boot/boot.ts";
import { addressOf, endOf, podSchema, startFaultOf, waitOf, type Pod } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { labelsOf, type OwnEgress } from "../egress-policy.ts";
import type { KnownSandbox } from "../records.ts";
import { toPodInit } from "../runs.ts";
import { askDaemon } from "./ask-daemon.ts";
import type { PodDialer } from "./dial.ts";
import { measureIsolation, requireStrength } from "./isolation.ts";
import { toPod, type PodPlan } from "./pod-spec.ts";
import { proveEnforcement } from "./prove-egress.ts";

/** A node may pull the image first; clients give up after a minute. */
export const START_TIMEOUT_MS = 55_000;
/** The daemon listens some time after its container runs. */
const DIAL_RETRY_MS = 25;

export interface BootTask {
  readonly stored: KnownSandbox;
  readonly plan: PodPlan;
  /** Undefined for a sandbox that may reach what all others reach. */
  readonly egress: OwnEgress | undefined;
}

/** Returns the level that was measured. @throws SandboxError unavailable, canceled */
export async function bootPod(
  context: ClusterContext,
  { stored, plan, egress }: BootTask,
  signal: AbortSignal,
): Promise<IsolationLevel> {
  const { api, pods } = context;
  const { name, uid } = stored.metadata;
  const podLabels = egress === undefined ? {} : labelsOf(name);
  const body = toPod(plan, name, { name, uid, podLabels });
  const pod = podSchema.parse(await api.call({ method: "POST", path: "pods", body, signal }));
  requireUserNamespace(pod);
  pods.apply(pod);
  await step("pod.made");
  const host = await pods.until(name, findAddress, signal);
  await step("pod.running");
  return tellDaemon(context, stored, { host, egress, signal });
}

interface TellTask extends Pick<BootTask, "egress"> {
  readonly host: string;
  /** Of a pooled Pod: resolves when that belongs to the record. */
  readonly adopted?: Promise<void>;
  readonly signal: AbortSignal;
}

/** A Pod that runs serves this sandbox from now on. Returns the level that was measured. */
export async function tellDaemon(
  context: ClusterContext,
  stored: KnownSandbox,
  { host, egress, adopted, signal }: TellTask,
): Promise<IsolationLevel> {
  const dialer = context.runs.dialer(stored, host);
  const { sandboxId } = stored.record;
  const isGone = () => {
    const pod = context.pods.items.get(sandboxId);
    return pod === undefined || endOf(pod) !== undefined;
  };
  const level = await awaitDaemon(async () => measureIsolation(dialer, signal), { signal, isGone });
  requireStrength(level, context.requireLevel);
  if (egress !== undefined) await proveEgress(dialer, signal);
  await keepBaseline(context, dialer, signal);
  // Tokens and variables go to a Pod of this sandbox alone.
  await adopted;
  await initDaemon(dialer, toPodInit(context, stored.record), signal);
  await step("pod.told");
  signal.throwIfAborted();
  return level;
}

/** @throws SandboxError as `proveEnforcement`, unavailable when the daemon refuses */
async function proveEgress(
  dialer: Parameters<typeof proveEnforcement>[0],
  signal: AbortSignal,
): Promise<void> {
  try {
    await proveEnforcement(dialer, signal);
  } catch (error) {
    throw toRefusedStart(error);
  }
}

/** The address of a Pod that runs. @throws SandboxError unavailable when it never will. */
function findAddress(pod: Pod | undefined): string | undefined {
  // It was there: another client has removed it.
  if (pod === undefined) throw new SandboxError("unavailable", "the Pod was removed");
  const fault = startFaultOf(pod);
  if (fault !== undefined)
    throw new SandboxError("unavailable", `the Pod does not start: ${fault}`);
  return addressOf(pod);
}

/** A server whose feature is off drops the field without a word. */
function requireUserNamespace({ spec }: Pod): void {
  if (spec?.hostUsers === false) return;
  throw new SandboxError("unavailable", "this cluster has no user namespaces for Pods", {
    hint: "Kubernetes 1.33 or newer has them",
  });
}

async function awaitDaemon<T>(
  ask: () => Promise<T>,
  { signal, isGone }: { readonly signal: AbortSignal; readonly isGone: () => boolean },
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted || isGone() || !hasErrorCode(error, "unavailable")) {
        throw toRefusedStart(error);
      }
      // At the end of the time its last fault says more than that the time is over.
      await delay(DIAL_RETRY_MS, undefined, { signal }).catch(() => {
        throw error;
      });
    }
  }
}

export function toLateFault(
  { pods }: { readonly pods: Pick<ClusterContext["pods"], "items"> },
  sandboxId: string,
  cause: unknown,
): SandboxError {
  const pod = pods.items.get(sandboxId);
  const message = lateText(pod, cause);
  return new SandboxError("deadline_exceeded", message, {
    cause,
    word: "sandbox_placement_timeout",
  });
}

function lateText(pod: Pod | undefined, cause: unknown): string {
  if (pod !== undefined && addressOf(pod) !== undefined) {
    return `the Pod runs, and its daemon was not reached in time: ${errorText(cause)}`;
  }
  const reason = pod === undefined ? undefined : waitOf(pod);
  return `the Pod did not run in time${reason === undefined ? "" : `: ${reason}`}`;
}

export function toStartFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox start");
  const isOwn = ["not_found", "already_exists", "failed_precondition"].includes(fault.code);
  if (!isOwn) return fault;
  const options = { cause: fault, word: "sandbox_create_failed" } as const;
  return new SandboxError("unavailable", "sandbox could not be started", options);
}

/**
 * Before any program of a client runs, the daemon has noted what its image contains, which it began at
 * its start. A daemon that cannot note it runs all the same, without snapshots.
 */
async function keepBaseline(
  { snapshots, log }: Pick<ClusterContext, "snapshots" | "log">,
  dialer: PodDialer,
  signal: AbortSignal,
): Promise<void> {
  if (snapshots === undefined) return;
  try {
    await askDaemon(dialer, { path: "/baseline", maxBytes: 0, body: {} }, signal);
  } catch (error) {
    if (!hasErrorCode(error, "internal")) throw error;
    log.warn({ op: "sandbox.create", err: error }, "no snapshots of this sandbox");
  }
}
