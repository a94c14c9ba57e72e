/**
 * What one front does for all, once a second: ends sandboxes at their time, goes on with ends and
 * removes starts that their front did not finish, gives up sandboxes whose Pod is gone, and settles
 * the keys of creates.
 */

import { createLastingFault } from "./api/lasting-fault.ts";
import { addressOf, endOf, PART, type Pod } from "./api/objects.ts";
import type { ClusterContext } from "./context.ts";
import { createDutyWorks, type Duty } from "./duty-works.ts";
import { createObservations, type Observations } from "./observations.ts";
import { createPauseDuties, type PauseDuties } from "./pause/duties.ts";
import { removePod } from "./pause/remove-pod.ts";
import { creationDuties } from "./pods/creation-duties.ts";
import { endSandbox, removeSandbox } from "./pods/end-pod.ts";
import { createPoolFiller } from "./pods/pool.ts";
import { hasNoPod, isOrphan } from "./present-state.ts";
import { isKnown, type KnownSandbox, type StoredSandbox } from "./records.ts";
import { snapshotDuties } from "./snapshots/duties.ts";
import { createRemovals } from "./snapshots/removals.ts";
import { volumeDuties } from "./volumes/volumes.ts";

const TICK_MS = 1_000;
/** An end that its own front still carries out is not done twice. */
const ENDING_GRACE_MS = 5_000;
/**
 * Longer than any start. The record of one may come into being after its front has given up the request
 * that made it, and has found nothing to remove.
 */
const MAX_START_MS = 180_000;
/** A Pod or a record may be seen some time before the other one. */
const UNSEEN_GRACE_MS = 5_000;
/** The kubelet of a deleted Pod answers within its grace; a silent node never does. */
const DELETED_GRACE_MS = 60_000;
const PROBE_GRACE_MS = 300_000;
/** Longer than a watch may be late. */
const LATE_POD_MS = 300_000;

export function startDuties(context: ClusterContext): Disposable {
  const { log, fronts } = context;
  const since = createObservations(context.graceShare);
  const fillPool = createPoolFiller(context);
  const pauses = createPauseDuties(context);
  const removals = createRemovals({
    ...context,
    onFault(buildId, error) {
      if (context.closing.aborted) return;
      log.warn({ op: "snapshot.remove", buildId, err: error }, "image was left, it is retried");
    },
  });

  const subjects = [
    follow("records", () => recordDuties(context, { since, pauses })),
    follow("pods", () => podDuties(context, since)),
    follow("creations", () => creationDuties(context, since)),
    follow("snapshots", () => {
      removals.look(snapshotDuties(context, since));
      return [];
    }),
    follow("volumes", () => volumeDuties(context, since)),
    follow("pool", () => [{ name: "pool", run: fillPool }]),
  ];

  /** Returns what each look does about a subject. */
  function follow(subject: string, find: () => readonly Duty[]): () => void {
    const { graceShare, closing, track } = context;
    const fields = { op: "cluster.duties", subject };
    const fault = createLastingFault({ log, fields, graceShare });
    const works = createDutyWorks({ subject, fault, closing, track });
    return () => {
      try {
        works.look(find());
      } catch (error) {
        fault.note(error);
      }
    };
  }

  const timer = setInterval(() => {
    if (context.closing.aborted || !fronts.isLeader) return;
    for (const look of subjects) look();
    since.forget();
  }, TICK_MS).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

interface Look {
  readonly since: Observations;
  readonly pauses: PauseDuties;
}

function recordDuties(context: ClusterContext, look: Look): Duty[] {
  return [...context.records.items].flatMap(([name, stored]) => {
    const run = dutyOf(context, stored, look);
    return run === undefined ? [] : [{ name, run }];
  });
}

/** What is to be done about a record now. */
function dutyOf(
  context: ClusterContext,
  stored: StoredSandbox,
  { since, pauses }: Look,
): (() => Promise<unknown>) | undefined {
  if (!isKnown(stored)) return undefined;
  const { sandboxId, state, owner, endAtMs } = stored.record;
  const lasts = (what: string, ms: number) => since.lasts(`${what} ${sandboxId}`, ms);
  if (state === "ending") {
    if (!lasts("ending", ENDING_GRACE_MS)) return undefined;
    return () => removeSandbox(context, sandboxId);
  }
  const pod = context.pods.items.get(sandboxId);
  if (state === "starting") {
    const reason = leftStart(context.fronts.isAlive(owner), lasts);
    if (reason === undefined) return undefined;
    return () => endSandbox(context, sandboxId, { reason, holds: isStarting });
  }
  const pauseDuty = pauses.dutyOf(stored, since);
  if (pauseDuty !== undefined) return pauseDuty === "wait" ? undefined : pauseDuty;
  if (endAtMs <= context.clock.now()) {
    const holds = ({ record }: StoredSandbox) =>
      record?.state === "running" && record.endAtMs <= context.clock.now();
    const end = () => endSandbox(context, sandboxId, { reason: "timeout", holds });
    if (!awaitsPause(stored, pod) || lasts("not paused", LATE_POD_MS)) return end;
    // Its Pod may be seen late: it is paused once that is seen.
    return async () => ((await hasNoPod(context, sandboxId)) ? end() : undefined);
  }
  const reason = pod === undefined ? "its Pod is gone" : endOf(pod);
  if (reason === undefined) return undefined;
  if (pod === undefined && !lasts("unseen", UNSEEN_GRACE_MS)) return undefined;
  return async () => {
    if (await hasNoPod(context, sandboxId)) {
      await endSandbox(context, sandboxId, { reason, holds: isNotPaused });
    }
  };
}

/** Why a start is removed; undefined while its front may still finish it. */
function leftStart(
  isOwnerAlive: boolean,
  lasts: (what: string, ms: number) => boolean,
): string | undefined {
  if (lasts("starting", MAX_START_MS)) return "its front gave it up";
  const isLeft = !isOwnerAlive && lasts("start of a dead front", ENDING_GRACE_MS);
  return isLeft ? "its front died" : undefined;
}

/** Whether it is to be paused, or is, and no Pod of it is seen for that. */
function awaitsPause({ record, change }: KnownSandbox, pod: Pod | undefined): boolean {
  const isPausing = record.pausesAtTimeout || change !== undefined;
  return isPausing && (pod === undefined || addressOf(pod) === undefined);
}

function isNotPaused({ record }: StoredSandbox): boolean {
  return record?.state !== "paused";
}

function isStarting({ record }: StoredSandbox): boolean {
  return record?.state === "starting";
}

function podDuties(context: ClusterContext, since: Observations): Duty[] {
  return [...context.pods.items.values()].flatMap((pod) => {
    const run = podDutyOf(context, pod, since);
    return run === undefined ? [] : [{ name: pod.metadata.uid, run }];
  });
}

function podDutyOf(
  context: ClusterContext,
  pod: Pod,
  since: Observations,
): (() => Promise<void>) | undefined {
  const { name } = pod.metadata;
  if (isStuck(pod, since)) return () => removePod(context.api, pod, 0);
  if (isForgottenProbe(pod) && since.lasts(`probe ${name}`, PROBE_GRACE_MS)) {
    return () => removePod(context.api, pod);
  }
  if (!seemsOrphan(context, pod) || !since.lasts(`orphan ${name}`, UNSEEN_GRACE_MS)) {
    return undefined;
  }
  return async () => {
    if (await isOrphan(context, name)) await removePod(context.api, pod);
  };
}

function isStuck({ metadata }: Pod, since: Observations): boolean {
  return (
    metadata.deletionTimestamp !== undefined &&
    // It was removed by force already: only its finalizers are left, which are those of others.
    metadata.deletionGracePeriodSeconds !== 0 &&
    since.lasts(`deleted ${metadata.uid}`, DELETED_GRACE_MS)
  );
}

/** A `doctor` that was killed leaves its Pod. */
function isForgottenProbe({ metadata }: Pod): boolean {
  return metadata.labels?.[PART] === "probe" && metadata.deletionTimestamp === undefined;
}

function seemsOrphan({ records }: ClusterContext, { metadata }: Pod): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return metadata.labels?.[PART] === "sandbox" && !records.items.has(metadata.name);
}
