/** What operations on sandboxes that are Pods work with. */

import type { Clock } from "../common/clock.ts";
import type { Track } from "../common/concurrency.ts";
import type { Logger } from "../common/log.ts";
import type { ContainerLimits, IsolationLevel } from "../engine/engine.ts";
import type { CleanupRetries } from "../sandboxes/retry-cleanup.ts";
import type { TeamQuota } from "../sandboxes/team-quota.ts";
import type { ClusterApi } from "./api/api.ts";
import type { Pod } from "./api/objects.ts";
import type { WatchCache } from "./api/watch-cache.ts";
import type { EgressSettings } from "./egress-policy.ts";
import type { Fronts } from "./fronts.ts";
import type { ImageTemplates } from "./image-templates.ts";
import type { StoredCreation } from "./pods/creations.ts";
import type { PodInspector } from "./pods/inspect-pod.ts";
import type { PodTemplate } from "./pods/pod-template.ts";
import type { StoredSandbox } from "./records.ts";
import type { Runs, RunsOptions } from "./runs.ts";
import type { ClusterSecrets } from "./seed.ts";
import type { SnapshotSettings } from "./snapshots/image-place.ts";
import type { StoredSnapshot } from "./snapshots/records.ts";
import type { TakeGate } from "./snapshots/take-gate.ts";
import type { StoredVolume, VolumeSettings } from "./volumes/records.ts";

export interface ClusterContext extends CleanupRetries {
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly log: Logger;
  readonly cluster: ClusterSecrets;
  readonly records: WatchCache<StoredSandbox>;
  readonly pods: WatchCache<Pod>;
  /** Keys of creates. */
  readonly creations: WatchCache<StoredCreation>;
  readonly buildOf: RunsOptions["buildOf"];
  /** Undefined where snapshots are not offered, as their settings. */
  readonly snapshots: WatchCache<StoredSnapshot> | undefined;
  readonly snapshotSettings?: SnapshotSettings | undefined;
  /** Undefined where volumes are not offered, as their settings. */
  readonly volumes: WatchCache<StoredVolume> | undefined;
  readonly volumeSettings?: VolumeSettings | undefined;
  readonly takeGate: TakeGate;
  /** Pooled Pods that this front has tried to claim, and when. */
  readonly tried: Map<string, number>;
  /** Closing waits for it. */
  readonly track: Track;
  readonly maxSandboxes: number;
  readonly fronts: Fronts;
  readonly runs: Runs;
  readonly inspector: PodInspector;
  readonly images: ImageTemplates;
  readonly quota: TeamQuota;
  readonly limits: ContainerLimits;
  readonly podTemplate: PodTemplate;
  /** The weakest level that a Pod must prove. */
  readonly requireLevel: IsolationLevel;
  /** Variables of every process, below those that a create names. */
  readonly environment: Readonly<Record<string, string>>;
  readonly pool: readonly PoolSize[];
  /** Undefined where the rules of a sandbox are not offered. */
  readonly egress?: EgressSettings | undefined;
  /** Fires when the front closes. */
  readonly closing: AbortSignal;
  /** Port of the listener in Pods, in tests; undefined for that of the daemon. */
  readonly podPort?: number | undefined;
  /** Of the usual graces of its duties, in tests. */
  readonly graceShare?: number | undefined;
}

export interface PoolSize {
  readonly template: string;
  readonly size: number;
}
