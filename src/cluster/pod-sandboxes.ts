/**
 * The sandbox registry of a cluster: the same calls as that of one machine, answered from the watched
 * records and carried out on Pods. What Pods lack is refused by name.
 */

import type { Clock } from "../common/clock.ts";
import { createTrack, type Track } from "../common/concurrency.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { ContainerLimits, IsolationLevel } from "../engine/engine.ts";
import { listEntries } from "../sandboxes/list-sandboxes.ts";
import { createCleanupRetries } from "../sandboxes/retry-cleanup.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import { createTeamQuota } from "../sandboxes/team-quota.ts";
import type { TeamSandboxes } from "../sandboxes/team-sandboxes.ts";
import { DEFAULT_TEAM } from "../store/store.ts";
import { MESSAGES, sandboxMissing } from "../wire/messages.ts";
import { isCode, type ClusterApi } from "./api.ts";
import { cannot } from "./cannot.ts";
import type { ClusterContext, PoolSize } from "./context.ts";
import { createPodOnce } from "./create-once.ts";
import { describe } from "./create-pod.ts";
import { startDuties } from "./duties.ts";
import type { EgressSettings } from "./egress-policy.ts";
import { endSandbox } from "./end-pod.ts";
import { extendSandbox, refreshSandbox, setTimeoutOf } from "./expiry.ts";
import { startFronts } from "./fronts.ts";
import { createImageTemplates, type PodImage } from "./image-templates.ts";
import { createPodInspector } from "./inspect-pod.ts";
import { addressOf } from "./objects.ts";
import type { PodTemplate } from "./pod-template.ts";
import { isKnown, readRecord, type KnownSandbox } from "./records.ts";
import { createRuns, type RunsOptions } from "./runs.ts";
import { openClusterSecrets } from "./seed.ts";
import { snapshotOperations } from "./snapshots/operations.ts";
import type { SnapshotSettings } from "./snapshots/place.ts";
import { buildOf as buildOfRecord } from "./snapshots/snapshots.ts";
import { createTakeGate } from "./snapshots/take.ts";
import { watchCluster } from "./watched.ts";

/** A Pod that another front has started is seen here a moment later. */
const SIGHT_TIMEOUT_MS = 5_000;

export interface PodSandboxesOptions {
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
  /** Undefined: no snapshots, no forks. */
  readonly snapshotSettings?: SnapshotSettings | undefined;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** Of the listener in Pods, in tests. */
  readonly podPort?: number | undefined;
}

/** Opens the registry: it answers when all records are known. */
export async function startPodSandboxes(options: PodSandboxesOptions): Promise<Sandboxes> {
  const { api, clock, log } = options;
  await using stack = new AsyncDisposableStack();
  const closing = new AbortController();
  const { pending, track } = createTrack();
  const cluster = await openClusterSecrets(api);
  const fronts = stack.use(await startFronts(api, log, options.name));
  const watched = stack.use(watchCluster(options));
  const { records, pods, snapshots } = watched;
  const images = createImageTemplates(options.images, options.limits);
  const environment = options.environment ?? {};
  const { podPort } = options;
  const buildOf: RunsOptions["buildOf"] = (record) =>
    buildOfRecord({ snapshots, limits: options.limits, images }, record);
  const runs = stack.use(
    createRuns({ clock, cluster, records, pods, buildOf, environment, podPort }),
  );
  await watched.filled;
  for (const { template } of options.pool) images.find(template);
  const context: ClusterContext = {
    ...options,
    ...createCleanupRetries({ clock, log, closing: closing.signal, track }),
    cluster,
    fronts,
    records,
    creations: watched.creations,
    snapshots,
    takeGate: createTakeGate(),
    buildOf,
    pods,
    images,
    environment,
    runs,
    inspector: createPodInspector({ clock, pods, runs, closing: closing.signal }),
    quota: createTeamQuota({
      ...options,
      teams: () => [DEFAULT_TEAM],
      count: () => countByTeam(knownOf(context)),
    }),
    closing: closing.signal,
  };
  stack.use(startDuties(context));
  const mayRead = createReadLimit();
  const owned = stack.move();
  return {
    ...toOperations(context, DEFAULT_TEAM, track),
    of: (team) => toOperations(context, team, track),
    uploads: {
      find: async () => undefined,
      sign: () => refuse("builds"),
      receive: async () => refuse("builds"),
    },
    count: () => countStates(context),
    locate: (sandboxId) => runs.find(sandboxId),
    endpoints: () => runs.all(),
    async wake({ sandboxId }) {
      // Without a key anyone can name sandboxes: reads of the API server for them are few.
      if (!mayRead(sandboxId)) throw new SandboxError("not_found", MESSAGES.sandboxUnreachable);
      return track(findFresh(context, sandboxId));
    },
    wakeable: () => [],
    openVolume: () => refuse("volumes"),
    async [Symbol.asyncDispose]() {
      closing.abort();
      await Promise.allSettled(pending);
      await owned.disposeAsync();
    },
  };
}

type Ability = Parameters<typeof cannot>[0];

function refuse(ability: Ability): never {
  throw cannot(ability);
}

function toOperations(context: ClusterContext, team: string, track: Track): TeamSandboxes {
  const { inspector } = context;
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
        .filter(({ record }) => record.team === team && record.state === "running")
        .map((stored) => ({ ...stored, phase: "running" as const }));
      return listEntries(entries, query, (stored) => describe(context, stored));
    },
    async kill(sandboxId) {
      requireKnown(context, team, sandboxId);
      const isEnded = await track(endSandbox(context, sandboxId, { reason: "request" }));
      if (!isEnded) throw new SandboxError("not_found", sandboxMissing(sandboxId));
    },
    setTimeout: (sandboxId, seconds) => setTimeoutOf(context, { team, sandboxId }, seconds),
    refresh: (sandboxId, seconds) => refreshSandbox(context, { team, sandboxId }, seconds),
    async connect(sandboxId, { timeoutSeconds }) {
      const stored = await extendSandbox(context, { team, sandboxId }, timeoutSeconds);
      return { sandbox: describe(context, stored), wasResumed: false };
    },
    resume: async (sandboxId) => refuseFor(sandboxId, "pause"),
    pause: async (sandboxId) => refuseFor(sandboxId, "pause"),
    updateNetwork: async (sandboxId) => refuseFor(sandboxId, "networkUpdate"),
    createVolume: async () => refuse("volumes"),
    listVolumes: () => [],
    getVolume: () => refuse("volumes"),
    removeVolume: async () => refuse("volumes"),
    logs: async (query) => inspector.logs(requireKnown(context, team, query.sandboxId), query),
    async metrics(sandboxId, { startMs = 0, endMs = Number.POSITIVE_INFINITY }) {
      const stored = requireKnown(context, team, sandboxId);
      const nowMs = context.clock.now();
      return startMs <= nowMs && nowMs <= endMs ? [await inspector.measure(stored)] : [];
    },
    async latestMetric(sandboxId) {
      const stored = findKnown(context, team, sandboxId);
      // One of several that does not answer takes nothing from the others.
      return stored && inspector.measure(stored).catch(() => undefined);
    },
    measure: async (sandboxId) => inspector.measure(requireKnown(context, team, sandboxId)),
  };
}

function knownOf({ records }: Pick<ClusterContext, "records">): KnownSandbox[] {
  return [...records.items.values()].filter((stored) => isKnown(stored));
}

/** Undefined for one that does not run, or of another team. */
function findKnown(
  { records }: ClusterContext,
  team: string,
  sandboxId: string,
): KnownSandbox | undefined {
  const stored = records.items.get(sandboxId);
  const isOwn = isKnown(stored) && stored.record.team === team;
  return isOwn && stored.record.state === "running" ? stored : undefined;
}

/** @throws SandboxError not_found for one that does not run, or of another team. */
function requireKnown(context: ClusterContext, team: string, sandboxId: string): KnownSandbox {
  const stored = findKnown(context, team, sandboxId);
  if (stored !== undefined) return stored;
  throw new SandboxError("not_found", sandboxMissing(sandboxId));
}

/** Reads a record that another front may have changed; while the API server is away, what is known counts. */
async function readFresh({ api, records }: ClusterContext, sandboxId: string): Promise<void> {
  try {
    const stored = await readRecord(api, sandboxId);
    if (stored === undefined) records.drop(sandboxId);
    else records.apply(stored);
  } catch (error) {
    if (!isCode(error, "unavailable")) throw error;
  }
}

/** The endpoint of a sandbox that another front may just have started. */
async function findFresh(context: ClusterContext, sandboxId: string) {
  await readFresh(context, sandboxId);
  const stored = context.records.items.get(sandboxId);
  if (isKnown(stored) && stored.record.state === "running") {
    const signal = AbortSignal.any([context.closing, AbortSignal.timeout(SIGHT_TIMEOUT_MS)]);
    await context.pods
      .until(sandboxId, (pod) => pod && addressOf(pod), signal)
      .catch(() => undefined);
    const endpoint = context.runs.find(sandboxId);
    if (endpoint !== undefined) return endpoint;
  }
  throw new SandboxError("not_found", MESSAGES.sandboxUnreachable);
}

const SANDBOX_ID_PATTERN = /^i[a-z0-9]{20}$/;

/** Reads of records that requests to the gateway cause, at most; more find what is known here alone. */
const MAX_READS_PER_SECOND = 20;

function createReadLimit(): (sandboxId: string) => boolean {
  let left = MAX_READS_PER_SECOND;
  let atMs = performance.now();
  return (sandboxId) => {
    const nowMs = performance.now();
    const earned = ((nowMs - atMs) / 1_000) * MAX_READS_PER_SECOND;
    left = Math.min(left + earned, MAX_READS_PER_SECOND);
    atMs = nowMs;
    if (!SANDBOX_ID_PATTERN.test(sandboxId) || left < 1) return false;
    left -= 1;
    return true;
  };
}

function countByTeam(known: readonly KnownSandbox[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { record } of known) {
    if (record.state === "running") counts.set(record.team, (counts.get(record.team) ?? 0) + 1);
  }
  return counts;
}

function countStates(context: ClusterContext) {
  const known = knownOf(context);
  const running = known.filter(({ record }) => record.state === "running").length;
  const starting = known.filter(({ record }) => record.state === "starting").length;
  return { running, paused: 0, starting };
}
