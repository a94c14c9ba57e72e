/**
 * The sandbox registry of a cluster: the same calls as that of one machine, answered from the watched
 * records and carried out on Pods. What Pods lack is refused by name.
 */

import type { Clock } from "../common/clock.ts";
import { createTrack, type Track } from "../common/concurrency.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { orCanceled } from "../common/or-canceled.ts";
import type { ContainerLimits, IsolationLevel } from "../engine/engine.ts";
import { listEntries } from "../sandboxes/list-sandboxes.ts";
import type { WakeRequest } from "../sandboxes/pause/wake.ts";
import { createCleanupRetries } from "../sandboxes/retry-cleanup.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import { createTeamQuota } from "../sandboxes/team-quota.ts";
import type { TeamSandboxes } from "../sandboxes/team-sandboxes.ts";
import { DEFAULT_TEAM } from "../store/store.ts";
import { sandboxMissing } from "../wire/messages.ts";
import type { ClusterApi } from "./api/api.ts";
import { awaitRights } from "./await-rights.ts";
import type { ClusterContext, PoolSize } from "./context.ts";
import { startDuties } from "./duties.ts";
import type { EgressSettings } from "./egress-policy.ts";
import { refreshSandbox, setTimeoutOf } from "./expiry.ts";
import {
  countByTeam,
  countStates,
  createReadLimit,
  findFresh,
  isListed,
  phaseOf,
  knownOf,
  readFresh,
  requireKnown,
} from "./find.ts";
import { startFronts } from "./fronts.ts";
import { createImageTemplates, type PodImage } from "./image-templates.ts";
import { missingAbility } from "./missing-abilities.ts";
import { pausePod } from "./pause/pause.ts";
import { connectPod, resumePod } from "./pause/resume.ts";
import { stoppedPods, wakePod } from "./pause/wake.ts";
import { createPodOnce } from "./pods/create-once.ts";
import { describe } from "./pods/create-pod.ts";
import { endSandbox } from "./pods/end-pod.ts";
import { inspectOperations } from "./pods/inspect-operations.ts";
import { createPodInspector } from "./pods/inspect-pod.ts";
import type { PodTemplate } from "./pods/pod-template.ts";
import { createRuns, type RunsOptions } from "./runs.ts";
import { openClusterSecrets } from "./seed.ts";
import type { SnapshotSettings } from "./snapshots/image-place.ts";
import { snapshotOperations } from "./snapshots/operations.ts";
import { buildOf as buildOfRecord } from "./snapshots/snapshots.ts";
import { createTakeGate } from "./snapshots/take-gate.ts";
import type { VolumeSettings } from "./volumes/records.ts";
import { createVolume, getVolume, listVolumes, removeVolume } from "./volumes/volumes.ts";
import { watchCluster } from "./watched.ts";

export interface PodSandboxesOptions {
  /** Ends the start. */
  readonly signal: AbortSignal;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this front: a DNS label that no other front has. */
  readonly name: string;
  readonly images: readonly PodImage[];
  readonly podTemplate: PodTemplate;
  readonly limits: ContainerLimits;
  readonly maxSandboxes: number;
  readonly maxSandboxesPerTeam?: number | undefined;
  readonly requireLevel: IsolationLevel;
  readonly pool: readonly PoolSize[];
  readonly egress?: EgressSettings | undefined;
  /** Those that have a key, besides the first one. */
  readonly teams?: (() => readonly string[]) | undefined;
  /** Undefined: no snapshots, no forks. */
  readonly snapshotSettings?: SnapshotSettings | undefined;
  /** Undefined: no volumes. */
  readonly volumeSettings?: VolumeSettings | undefined;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** Of the listener in Pods, in tests. */
  readonly podPort?: number | undefined;
  /** Of the usual graces of its duties, in tests. */
  readonly graceShare?: number | undefined;
}

/** Opens the registry: it answers when all records are known. */
export async function startPodSandboxes(options: PodSandboxesOptions): Promise<Sandboxes> {
  const { api, clock, log, signal, podPort, environment = {} } = options;
  await using stack = new AsyncDisposableStack();
  const closing = new AbortController();
  const { pending, track } = createTrack();
  const cluster = await awaitRights(async () => openClusterSecrets(api), signal);
  const fronts = stack.use(
    await awaitRights(async () => startFronts({ api, log, name: options.name, signal }), signal),
  );
  const watched = stack.use(watchCluster(options));
  const { records, pods, snapshots, volumes } = watched;
  const images = createImageTemplates(options.images, options.limits);
  const buildOf: RunsOptions["buildOf"] = (record) =>
    buildOfRecord({ snapshots, limits: options.limits, images }, record);
  const runs = stack.use(
    createRuns({ clock, cluster, records, pods, buildOf, environment, podPort }),
  );
  await orCanceled(watched.filled, signal);
  for (const { template } of options.pool) images.find(template);
  const context: ClusterContext = {
    ...options,
    ...createCleanupRetries({ clock, log, closing: closing.signal, track }),
    cluster,
    fronts,
    records,
    creations: watched.creations,
    snapshots,
    volumes,
    track,
    takeGate: createTakeGate(),
    tried: new Map(),
    buildOf,
    pods,
    images,
    environment,
    runs,
    inspector: createPodInspector({ clock, pods, runs, closing: closing.signal }),
    quota: createTeamQuota({
      ...options,
      teams: () => [...new Set([DEFAULT_TEAM, ...(options.teams?.() ?? [])])],
      count: () => countByTeam(context),
    }),
    closing: closing.signal,
  };
  stack.use(startDuties(context));
  const mayRead = createReadLimit();
  const contentAbility = volumes === undefined ? "volumes" : "volumeContent";
  const owned = stack.move();
  return {
    ...toOperations(context, DEFAULT_TEAM, track),
    of: (team) => toOperations(context, team, track),
    uploads: { receive: async () => refuse("builds") },
    count: () => countStates(context),
    locate: (sandboxId) => runs.find(sandboxId),
    endpoints: () => runs.all(),
    wake: async (request) => track(wakeFresh(context, request, mayRead)),
    stopped: () => stoppedPods(context),
    openVolume: () => refuse(contentAbility),
    async [Symbol.asyncDispose]() {
      closing.abort();
      await Promise.allSettled(pending);
      await owned.disposeAsync();
    },
  };
}

type Ability = Parameters<typeof missingAbility>[0];

function refuse(ability: Ability): never {
  throw missingAbility(ability);
}

function toOperations(context: ClusterContext, team: string, track: Track): TeamSandboxes {
  /** One that is not there is told first. */
  const refuseFor = (sandboxId: string, ability: Ability): never => {
    requireKnown(context, team, sandboxId);
    return refuse(ability);
  };
  return {
    ...snapshotOperations(context, {
      team,
      track,
      requireSandbox: (sandboxId) => requireKnown(context, team, sandboxId),
    }),
    builds: {
      request: () => refuse("builds"),
      files: async () => refuse("builds"),
      start: async () => refuse("builds"),
      status: () => refuse("builds"),
      lines: () => refuse("builds"),
    },
    create: (options, signal) => track(createPodOnce(context, { team, options }, signal)),
    get: (sandboxId) => describe(context, requireKnown(context, team, sandboxId)),
    async refreshRecord(sandboxId) {
      await readFresh(context, sandboxId);
    },
    list(query) {
      const entries = knownOf(context)
        .filter((stored) => stored.record.team === team && isListed(stored))
        .map((stored) => ({ ...stored, phase: phaseOf(stored) }));
      return listEntries(entries, query, (stored) => describe(context, stored));
    },
    async kill(sandboxId) {
      requireKnown(context, team, sandboxId);
      const isEnded = await track(endSandbox(context, sandboxId, { reason: "request" }));
      if (!isEnded) throw new SandboxError("not_found", sandboxMissing(sandboxId));
    },
    async setTimeout(sandboxId, seconds) {
      await setTimeoutOf(context, { team, sandboxId }, seconds);
    },
    refresh: (sandboxId, seconds) => refreshSandbox(context, { team, sandboxId }, seconds),
    async connect(sandboxId, { timeoutSeconds }) {
      const subject = { team, sandboxId };
      const { stored, wasResumed } = await track(connectPod(context, subject, { timeoutSeconds }));
      return { sandbox: describe(context, stored), wasResumed };
    },
    async resume(sandboxId, options) {
      return describe(context, await track(resumePod(context, { team, sandboxId }, options)));
    },
    pause: async (sandboxId) => {
      requireKnown(context, team, sandboxId);
      await track(pausePod(context, { team, sandboxId }, { reason: "request" }));
      return false;
    },
    updateNetwork: async (sandboxId) => refuseFor(sandboxId, "networkUpdate"),
    createVolume: (name) => track(createVolume(context, team, name)),
    listVolumes: () => listVolumes(context, team),
    getVolume: (volumeId) => getVolume(context, { team, volumeId }),
    removeVolume: (volumeId) => track(removeVolume(context, { team, volumeId })),
    ...inspectOperations(context, team),
  };
}

/**
 * The endpoint of a sandbox that another front may just have started, or that is started for it. Without
 * a key anyone can name sandboxes: few of them are read, and of more what is known here counts.
 */
async function wakeFresh(
  context: ClusterContext,
  request: WakeRequest,
  mayRead: (sandboxId: string) => boolean,
) {
  if (mayRead(request.sandboxId)) await readFresh(context, request.sandboxId);
  await wakePod(context, request);
  return findFresh(context, request.sandboxId);
}
