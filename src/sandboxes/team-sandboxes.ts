/** What one team may do with the sandboxes of a service, and ask of them. */

import type { Track } from "../common/concurrency.ts";
import type { LogLine } from "../store/log-records.ts";
import { createOnce } from "./create/create-once.ts";
import type { CreateContext } from "./create/create-sandbox.ts";
import type { EgressRequest } from "./egress.ts";
import { findEntry } from "./find-entry.ts";
import {
  detailEntry,
  findRestoreFault,
  listSandboxes,
  type ListQuery,
  type SandboxList,
} from "./list-sandboxes.ts";
import type { LogQuery } from "./logs/log-book.ts";
import type { Page } from "./paging.ts";
import { pauseSandbox } from "./pause/pause-sandbox.ts";
import type { ResumeOptions } from "./pause/resume-run.ts";
import { connectSandbox, resumeSandbox, type Connected } from "./pause/resume-sandbox.ts";
import { killSandbox } from "./reclaim/end-sandbox.ts";
import { requireEntry } from "./registry.ts";
import type { CreateOptions, CreationKey, Sandbox, StartedSandbox } from "./sandbox.ts";
import type { ForkOptions } from "./snapshots/fork-rules.ts";
import { forkSandbox, type ForkResult } from "./snapshots/fork-sandbox.ts";
import {
  createSnapshot,
  listSnapshots,
  type NewSnapshot,
  type Snapshot,
  type SnapshotQuery,
  type SnapshotRequest,
} from "./snapshots/snapshots.ts";
import type { BuildsContext } from "./template-builds/end-build.ts";
import { createTemplateBuilds, type TemplateBuilds } from "./template-builds/template-builds.ts";
import type { Templates } from "./templates/templates.ts";
import { refresh, setTimeoutOf } from "./timeout.ts";
import { updateNetwork } from "./update-network.ts";
import type { Sample, SampleRange } from "./usage-meter.ts";
import {
  createVolume,
  getVolume,
  listVolumes,
  removeVolume,
  type Volume,
} from "./volumes/volumes.ts";

export type RegistryContext = CreateContext & BuildsContext;

/** What a team may ask: another team's sandboxes, templates and volumes do not exist for it. */
export interface TeamSandboxes {
  readonly templates: Templates;
  readonly builds: TemplateBuilds;
  create(options: CreateOptions, signal: AbortSignal): Promise<StartedSandbox>;
  /** @throws SandboxError not_found. */
  get(sandboxId: string): Sandbox;
  /** Why the memory of a paused sandbox does not come back; absent where none is kept on disk. */
  findRestoreFault?(sandboxId: string): Promise<string | undefined>;
  /** Where other services change the same sandboxes: what follows sees the newest record. */
  refreshRecord?(sandboxId: string): Promise<void>;
  list(query: ListQuery): SandboxList;
  kill(sandboxId: string): Promise<void>;
  setTimeout(sandboxId: string, seconds: number): Promise<void>;
  refresh(sandboxId: string, seconds: number): Promise<void>;
  connect(sandboxId: string, options: ResumeOptions): Promise<Connected>;
  resume(sandboxId: string, options: ResumeOptions): Promise<Sandbox>;
  /**
   * Resolves with whether its memory stays. Where the daemon is required, one that does not answer is
   * `unavailable`.
   */
  pause(sandboxId: string, keepsMemory: boolean, requiresDaemon?: boolean): Promise<boolean>;
  snapshot(
    sandboxId: string,
    name: string | undefined,
    options?: Omit<SnapshotRequest, "name">,
  ): Promise<NewSnapshot>;
  fork(sandboxId: string, options: ForkOptions): Promise<ForkResult[]>;
  updateNetwork(sandboxId: string, rules: EgressRequest): Promise<void>;
  /**
   * A request that was answered with a volume is answered so again, where its key is known.
   * @throws SandboxError invalid_argument for a bad name, or one that is taken.
   */
  createVolume(name: string, once?: CreationKey): Promise<Volume>;
  listVolumes(): Volume[];
  /** @throws SandboxError invalid_argument for no identifier, not_found. */
  getVolume(volumeId: string): Promise<Volume>;
  /** @throws SandboxError as `getVolume`, and failed_precondition while a sandbox has it. */
  removeVolume(volumeId: string): Promise<void>;
  listSnapshots(query: SnapshotQuery): Page<Snapshot>;
  /** Also of a sandbox that is gone, while its log is kept. */
  logs(query: LogQuery): Promise<LogLine[]>;
  /**
   * Oldest first; empty for a sandbox that is gone.
   * @throws SandboxError not_found for one that never was.
   */
  metrics(sandboxId: string, range: SampleRange): Promise<Sample[]>;
  latestMetric(sandboxId: string): Promise<Sample | undefined>;
  /** A sample of this moment, which is not kept; undefined for a sandbox that does not run. */
  measure(sandboxId: string): Promise<Sample | undefined>;
}

/** The operations on behalf of the team of the context. */
export function toOperations(context: RegistryContext, track: Track): TeamSandboxes {
  const { team } = context;
  /** One that is there may have no log any more: a sandbox can be paused for longer than it is kept. */
  const requireKnown = (sandboxId: string): void => {
    if (findEntry(context, sandboxId) !== undefined) return;
    context.logBook.requireKnown({ sandboxId, team });
  };
  return {
    templates: context.templates,
    builds: createTemplateBuilds(context),
    create: (request, signal) => track(createOnce(context, request, signal)),
    get: (sandboxId) => detailEntry(context, requireEntry(context, sandboxId)),
    findRestoreFault: (sandboxId) => findRestoreFault(context, requireEntry(context, sandboxId)),
    list: (query) => listSandboxes(context, query),
    kill: (sandboxId) => killSandbox(context, sandboxId),
    setTimeout: (sandboxId, seconds) => setTimeoutOf(context, sandboxId, seconds),
    refresh: (sandboxId, seconds) => refresh(context, sandboxId, seconds),
    connect: (sandboxId, request) => track(connectSandbox(context, sandboxId, request)),
    resume: (sandboxId, request) => track(resumeSandbox(context, sandboxId, request)),
    pause: (sandboxId, keepsMemory, requiresDaemon = false) =>
      track(pauseSandbox(context, sandboxId, { keepsMemory, requiresDaemon })),
    snapshot: (sandboxId, name, options) =>
      track(createSnapshot(context, sandboxId, { ...options, name })),
    fork: (sandboxId, request) => track(forkSandbox(context, sandboxId, request)),
    updateNetwork: (sandboxId, rules) => updateNetwork(context, sandboxId, rules),
    createVolume: (name, once) => track(createVolume(context, name, once)),
    listVolumes: () => listVolumes(context),
    getVolume: async (volumeId) => getVolume(context, volumeId),
    removeVolume: (volumeId) => track(removeVolume(context, volumeId)),
    listSnapshots: (query) => listSnapshots(context, query),
    async logs(query) {
      requireKnown(query.sandboxId);
      return context.logBook.read(query);
    },
    async metrics(sandboxId, range) {
      requireKnown(sandboxId);
      return context.meter.read(sandboxId, range);
    },
    latestMetric: async (sandboxId) =>
      findEntry(context, sandboxId) && context.meter.latest(sandboxId),
    measure: async (sandboxId) => findEntry(context, sandboxId) && context.meter.measure(sandboxId),
  };
}
