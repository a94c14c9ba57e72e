/** Creates a sandbox: its record as intent, a Pod, its daemon, and only then the answer. */

import { setTimeout as delay } from "node:timers/promises";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { IsolationLevel } from "../engine/engine.ts";
import { initDaemon } from "../sandboxes/boot.ts";
import { toStartingRecord } from "../sandboxes/create-plan.ts";
import { toSandbox, type CreateOptions, type Sandbox } from "../sandboxes/sandbox.ts";
import { checkTimeout, expiryOfRun } from "../sandboxes/timeout.ts";
import type { SandboxRecord } from "../store/store.ts";
import { MESSAGES } from "../wire/messages.ts";
import { isCode } from "./api.ts";
import { missingAbilities, requireAbilities } from "./cannot.ts";
import type { ClusterContext } from "./context.ts";
import type { OpenCreation } from "./creations.ts";
import { addPolicy, labelsOf, planEgress, type OwnEgress } from "./egress-policy.ts";
import { removeSandbox } from "./end-pod.ts";
import type { FoundTemplate } from "./image-templates.ts";
import { measureIsolation, requireStrength } from "./isolation.ts";
import { addressOf, podSchema, schedulingFaultOf, startFaultOf, type Pod } from "./objects.ts";
import { shapeOf, toPod, type PodPlan } from "./pod-spec.ts";
import { adoptPod, findWarm, toPlan } from "./pool.ts";
import { proveEnforcement } from "./prove-egress.ts";
import { addRecord, changeRecord, type KnownSandbox } from "./records.ts";
import { toPodInit } from "./runs.ts";
import { keepBaseline } from "./snapshots/baseline.ts";
import { findTemplate, requireSnapshot } from "./snapshots/snapshots.ts";

/** A node may pull the image first; clients give up after a minute. */
const START_TIMEOUT_MS = 55_000;
/** A pooled Pod is there: one that does not answer is on a node that is gone. */
const CLAIM_TIMEOUT_MS = 8_000;
/** The daemon listens some time after its container runs. */
const DIAL_RETRY_MS = 25;
/** Claims that other fronts win before a Pod of its own is started. */
const MAX_CLAIMS = 4;

export interface CreateRequest {
  readonly team: string;
  readonly options: CreateOptions;
  /** Of a create with a key: it is told the sandbox before that is committed. */
  readonly creation?: OpenCreation;
  /** In the place of what the options name: that of a fork has no name. */
  readonly template?: FoundTemplate;
}

interface Start {
  readonly intent: SandboxRecord;
  readonly resolved: FoundTemplate["resolved"];
  readonly plan: PodPlan;
  readonly creation: OpenCreation | undefined;
  /** Undefined for one that may reach what all others reach. */
  readonly egress: OwnEgress | undefined;
}

/**
 * Starts a sandbox; it answers when this resolves. After a fault nothing of it is left.
 * @throws SandboxError unimplemented for what Pods lack, not_found for an unknown template,
 * resource_exhausted for a quota, deadline_exceeded, unavailable.
 */
export async function createPodSandbox(
  context: ClusterContext,
  { team, options, creation, template: given }: CreateRequest,
  signal: AbortSignal,
): Promise<Sandbox> {
  requireAbilities(options);
  checkTimeout(options.timeoutSeconds);
  if (options.network?.allowPublicTraffic === false && !options.isSecured) {
    throw new SandboxError("invalid_argument", MESSAGES.publicTrafficNeedsToken);
  }
  const egress = planEgress(context.egress, options);
  const template = given ?? (await findTemplate(context, team, options.template));
  const beganMs = performance.now();
  using reservation = context.quota.take(team);
  const bounded = AbortSignal.any([signal, context.closing]);
  const start = {
    intent: toIntent(context, { team, options }, template),
    resolved: template.resolved,
    plan: toPlan(context, template.image),
    creation,
    egress,
  };
  const stored =
    (await startWarm(context, start, bounded)) ?? (await startCold(context, start, bounded));
  const { sandboxId } = stored.record;
  const durationMs = Math.round(performance.now() - beganMs);
  const fields = { op: "sandbox.create", sandboxId, durationMs, outcome: "ok" };
  context.log.info(fields, "sandbox.create ok");
  // The record counts by itself.
  reservation[Symbol.dispose]();
  return describe(context, stored);
}

export function describe(
  { cluster, egress, snapshots }: Pick<ClusterContext, "cluster" | "egress" | "snapshots">,
  stored: KnownSandbox,
): Sandbox {
  const sandbox = toSandbox({ record: stored.record, container: stored }, cluster.secrets);
  const offered = { egress: egress !== undefined, snapshots: snapshots !== undefined };
  return { ...sandbox, missingAbilities: missingAbilities(offered) };
}

function toIntent(
  context: ClusterContext,
  { team, options }: CreateRequest,
  { resolved }: FoundTemplate,
): SandboxRecord {
  const { clock, cluster, limits, fronts } = context;
  const parts = { clock, secrets: cluster.secrets, limits, team, owner: fronts.name };
  return toStartingRecord(parts, { options, resolved, mounts: [] });
}

async function startCold(
  context: ClusterContext,
  { intent, resolved, plan, creation, egress }: Start,
  signal: AbortSignal,
): Promise<KnownSandbox> {
  const { api, records, pods } = context;
  const { sandboxId } = intent;
  const late = AbortSignal.timeout(START_TIMEOUT_MS);
  const bounded = AbortSignal.any([signal, late]);
  try {
    const stored = await addRecord(api, intent, bounded);
    records.apply(stored);
    await step("pod.recorded");
    await requireSnapshot(api, resolved);
    const owner = { name: sandboxId, uid: stored.metadata.uid };
    if (egress !== undefined) await addPolicy(context, owner, egress);
    const podLabels = egress === undefined ? {} : labelsOf(sandboxId);
    const body = toPod(plan, sandboxId, { ...owner, podLabels });
    const pod = podSchema.parse(
      await api.call({ method: "POST", path: "pods", body, signal: bounded }),
    );
    requireUserNamespace(pod);
    pods.apply(pod);
    await step("pod.made");
    const host = await pods.until(sandboxId, findAddress, bounded);
    await step("pod.running");
    return await begin(context, stored, { host, creation, egress, signal: bounded });
  } catch (error) {
    const fault = late.aborted && !signal.aborted ? toLateFault(context, sandboxId, error) : error;
    await undo(context, sandboxId);
    throw toStartFault(fault);
  }
}

/** Undefined when no pooled Pod could be had. */
async function startWarm(
  context: ClusterContext,
  { intent, plan, creation, egress }: Start,
  signal: AbortSignal,
): Promise<KnownSandbox | undefined> {
  // Policies are sure to hold for a Pod that was made under them alone.
  const hasNone = context.pool.length === 0 || egress !== undefined;
  const warm = hasNone ? [] : findWarm(context, shapeOf(plan));
  for (const pod of warm.slice(0, MAX_CLAIMS)) {
    const sandboxId = pod.metadata.name;
    const host = addressOf(pod);
    if (host === undefined) continue;
    let stored: KnownSandbox;
    try {
      stored = await addRecord(context.api, { ...intent, sandboxId }, signal);
    } catch (error) {
      // Another front was faster.
      if (isCode(error, "already_exists")) continue;
      throw toStartFault(error);
    }
    context.records.apply(stored);
    await step("pod.claimed");
    const claim = new AbortController();
    const late = AbortSignal.timeout(CLAIM_TIMEOUT_MS);
    const bounded = AbortSignal.any([signal, claim.signal, late]);
    const works = [
      begin(context, stored, { host, creation, egress, signal: bounded }),
      adoptPod(context, stored.metadata),
    ] as const;
    try {
      const [started] = await Promise.all(works);
      return started;
    } catch (error) {
      // A claim that goes on could name its sandbox to the key after the next one has.
      claim.abort();
      await Promise.allSettled(works);
      await undo(context, sandboxId);
      signal.throwIfAborted();
      if (creation?.isLost === true) throw error;
      context.log.warn({ op: "pool.claim", sandboxId, err: error }, "pooled Pod did not answer");
    }
  }
  return undefined;
}

interface Beginning extends Pick<Start, "creation" | "egress"> {
  readonly host: string;
  readonly signal: AbortSignal;
}

/** A Pod that runs becomes the sandbox: its daemon is told who it serves, then its record says so. */
async function begin(
  context: ClusterContext,
  stored: KnownSandbox,
  { host, creation, egress, signal }: Beginning,
): Promise<KnownSandbox> {
  const dialer = context.runs.dialer(stored, host);
  const level = await awaitDaemon(() => measureIsolation(dialer, signal), signal);
  requireStrength(level, context.requireLevel);
  if (egress !== undefined) await proveEnforcement(dialer, signal);
  await keepBaseline(context, dialer, signal);
  await initDaemon(dialer, toPodInit(context, stored.record), signal);
  await step("pod.told");
  signal.throwIfAborted();
  await creation?.bind(stored.record, level);
  const running = await commit(context, stored, level);
  await step("pod.committed");
  return running;
}

/** The address of a Pod that runs. @throws SandboxError unavailable when it never will. */
function findAddress(pod: Pod | undefined): string | undefined {
  if (pod === undefined) return undefined;
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

async function awaitDaemon<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted || !isCode(error, "unavailable")) throw error;
    }
    await delay(DIAL_RETRY_MS, undefined, { signal });
  }
}

async function commit(
  context: ClusterContext,
  stored: KnownSandbox,
  level: IsolationLevel,
): Promise<KnownSandbox> {
  const startedAtMs = context.clock.now();
  const endAtMs = expiryOfRun(stored.record.timeoutSeconds, startedAtMs);
  const changes = { state: "running", startedAtMs, endAtMs, level } as const;
  const running = await changeRecord(context.api, stored, changes);
  context.records.apply(running);
  return running;
}

/** Removes what there is of a start; what fails is retried, and by another front if this one ends. */
async function undo(context: ClusterContext, sandboxId: string): Promise<void> {
  try {
    await removeSandbox(context, sandboxId);
  } catch (error) {
    context.log.warn({ op: "sandbox.create", sandboxId, err: error }, "start left traces");
    context.retry(`start of ${sandboxId}`, () => removeSandbox(context, sandboxId));
  }
}

function toLateFault({ pods }: ClusterContext, sandboxId: string, cause: unknown): SandboxError {
  const pod = pods.items.get(sandboxId);
  const reason = pod === undefined ? undefined : schedulingFaultOf(pod);
  const message = `the Pod did not run in time${reason === undefined ? "" : `: ${reason}`}`;
  return new SandboxError("deadline_exceeded", message, {
    cause,
    word: "sandbox_placement_timeout",
  });
}

function toStartFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox start");
  const isOwn = fault.code === "not_found" || fault.code === "permission_denied";
  if (!isOwn && fault.code !== "already_exists" && fault.code !== "failed_precondition")
    return fault;
  const options = { cause: fault, word: "sandbox_create_failed" } as const;
  return new SandboxError("unavailable", "sandbox could not be started", options);
}
