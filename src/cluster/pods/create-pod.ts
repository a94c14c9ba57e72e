/** Creates a sandbox: its record as intent, a Pod, its daemon, and only then the answer. */

import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import type { IsolationLevel } from "../../engine/engine.ts";
import { toStartingRecord } from "../../sandboxes/create/create-plan.ts";
import { toSandbox, type CreateOptions, type Sandbox } from "../../sandboxes/sandbox.ts";
import { checkTimeout, expiryOfRun } from "../../sandboxes/timeout.ts";
import type { SandboxRecord } from "../../store/store.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { isConflict } from "../api/api.ts";
import { addressOf } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { addPolicy, planEgress, type OwnEgress } from "../egress-policy.ts";
import type { FoundTemplate } from "../image-templates.ts";
import { missingAbility, missingAbilities, requireAbilities } from "../missing-abilities.ts";
import {
  addRecord,
  changeRecord,
  isKnown,
  readRecord,
  type KnownSandbox,
  type StoredSandbox,
} from "../records.ts";
import { findTemplate, requireSnapshot } from "../snapshots/snapshots.ts";
import { findClaims, resolveMounts } from "../volumes/mounts.ts";
import { bootPod, START_TIMEOUT_MS, tellDaemon, toLateFault, toStartFault } from "./boot-pod.ts";
import type { OpenCreation } from "./creations.ts";
import { endSandbox, removeSandbox } from "./end-pod.ts";
import { shapeOf, type PodPlan } from "./pod-spec.ts";
import { adoptPod, findWarm, toPlan } from "./pool.ts";

/** A pooled Pod is there: one that does not answer is on a node that is gone. */
const CLAIM_TIMEOUT_MS = 8_000;
/** Claims that other fronts win before a Pod of its own is started. */
const MAX_CLAIMS = 4;
/** Attempts to write that a sandbox runs, where others change its record meanwhile. */
const MAX_COMMITS = 4;

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
  requireAbilities(options, context);
  checkTimeout(options.timeoutSeconds);
  if (options.network?.allowPublicTraffic === false && !options.isSecured) {
    throw new SandboxError("invalid_argument", MESSAGES.publicTrafficNeedsToken);
  }
  const egress = planEgress(context.egress, options);
  const template = given ?? (await findTemplate(context, team, options.template));
  const mounts = await findMounts(
    context,
    { team, options },
    { template, isFork: given !== undefined },
  );
  const beganMs = performance.now();
  using reservation = context.quota.take(team);
  const bounded = anySignal([signal, context.closing]);
  const start = {
    intent: { ...toIntent(context, { team, options }, template), volumeMounts: mounts },
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
  context: Pick<ClusterContext, "cluster" | "egress" | "snapshots" | "volumes">,
  stored: KnownSandbox,
): Sandbox {
  const isPausing = stored.change?.kind === "pausing";
  const record = isPausing
    ? { ...stored.record, state: "paused" as const, hasMemory: false }
    : stored.record;
  const sandbox = toSandbox({ record, container: stored }, context.cluster.secrets);
  const offered = {
    egress: context.egress !== undefined,
    snapshots: context.snapshots !== undefined,
    volumes: context.volumes !== undefined,
  };
  return { ...sandbox, missingAbilities: missingAbilities(offered) };
}

/**
 * A template of its owner leads to no reserved directory by links; the files of a snapshot may. Those of a
 * fork were looked at when its image was made.
 */
async function findMounts(
  context: ClusterContext,
  { team, options }: CreateRequest,
  { template, isFork }: { readonly template: FoundTemplate; readonly isFork: boolean },
): Promise<SandboxRecord["volumeMounts"]> {
  const { volumeMounts } = options;
  const isOfSnapshot = template.resolved.template.kind === "snapshot";
  if (volumeMounts.length > 0 && isOfSnapshot && !isFork) {
    throw missingAbility("snapshotVolumes");
  }
  return resolveMounts(context, team, volumeMounts);
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
  const { api, records } = context;
  const { sandboxId } = intent;
  const late = signalAfter(START_TIMEOUT_MS);
  const bounded = anySignal([signal, late]);
  try {
    const stored = await addRecord(api, intent, bounded);
    records.apply(stored);
    await step("pod.recorded");
    await requireSnapshot(api, resolved);
    const owner = { name: sandboxId, uid: stored.metadata.uid };
    if (egress !== undefined) await addPolicy(context, owner, egress);
    const mounts = await findClaims(context, intent);
    const level = await bootPod(context, { stored, plan: { ...plan, mounts }, egress }, bounded);
    return await finish(context, stored, { level, creation });
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
  const isSpecial = egress !== undefined || intent.volumeMounts.length > 0;
  const hasNone = context.pool.length === 0 || isSpecial;
  for (let claims = 0; claims < MAX_CLAIMS; claims += 1) {
    const pod = hasNone ? undefined : findWarm(context, shapeOf(plan));
    const host = pod && addressOf(pod);
    if (pod === undefined || host === undefined) return undefined;
    const sandboxId = pod.metadata.name;
    let stored: KnownSandbox;
    try {
      stored = await addRecord(context.api, { ...intent, sandboxId }, signal);
    } catch (error) {
      // Another front was faster.
      if (hasErrorCode(error, "already_exists")) continue;
      // It may have been written all the same.
      await undoClaim(context, { ...intent, sandboxId });
      throw toStartFault(error);
    }
    context.records.apply(stored);
    await step("pod.claimed");
    const claim = new AbortController();
    const late = signalAfter(CLAIM_TIMEOUT_MS);
    const bounded = anySignal([signal, claim.signal, late]);
    const adopted = adoptPod(context, stored.metadata);
    const works = [
      tellDaemon(context, stored, { host, egress, adopted, signal: bounded }).then(async (level) =>
        finish(context, stored, { level, creation }),
      ),
      adopted,
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

/** Its daemon was told whom it serves: the record says so. */
async function finish(
  context: ClusterContext,
  stored: KnownSandbox,
  { level, creation }: Pick<Start, "creation"> & { readonly level: IsolationLevel },
): Promise<KnownSandbox> {
  await creation?.bind(stored.record, level);
  const running = await commit(context, stored, level);
  await step("pod.committed");
  return running;
}

async function commit(
  context: ClusterContext,
  stored: KnownSandbox,
  level: IsolationLevel,
): Promise<KnownSandbox> {
  const startedAtMs = context.clock.now();
  const endAtMs = expiryOfRun(stored.record.timeoutSeconds, startedAtMs);
  const changes = { state: "running", startedAtMs, endAtMs, level } as const;
  let present = stored;
  for (let round = 1; present.record.state === "starting"; round += 1) {
    try {
      present = await changeRecord(context.api, present, changes);
    } catch (error) {
      if (!isConflict(error) || round >= MAX_COMMITS) throw error;
      const found = await readRecord(context.api, stored.record.sandboxId);
      if (!isKnown(found) || !isSameStart(found, stored)) throw error;
      present = found;
    }
  }
  context.records.apply(present);
  return present;
}

/** Other clients may have labeled its record; a change that was carried out twice is refused by itself. */
function isSameStart({ record }: KnownSandbox, { record: start }: KnownSandbox): boolean {
  const { state, bootId } = record;
  return bootId === start.bootId && (state === "starting" || state === "running");
}

/** A record of another front may have its name. */
async function undoClaim(
  context: ClusterContext,
  { sandboxId, bootId }: SandboxRecord,
): Promise<void> {
  const holds = ({ record }: StoredSandbox) => record?.bootId === bootId;
  const work = async () =>
    void (await endSandbox(context, sandboxId, { reason: "its claim failed", holds }));
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "pool.claim", sandboxId, err: error }, "claim left traces");
    context.retry(`claim of ${sandboxId}`, work);
  }
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
