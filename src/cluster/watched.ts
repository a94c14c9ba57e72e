/** What a front watches of the cluster: records, keys of creates, Pods, snapshots and volumes. */

import type { Logger } from "../common/log.ts";
import type { ClusterApi } from "./api/api.ts";
import { MANAGED, MANAGER, podSchema, type Pod } from "./api/objects.ts";
import { startWatchCache, type WatchCache } from "./api/watch-cache.ts";
import { CREATION_SELECTOR, storedCreationSchema, type StoredCreation } from "./pods/creations.ts";
import { RECORD_SELECTOR, storedSchema, type StoredSandbox } from "./records.ts";
import type { SnapshotSettings } from "./snapshots/image-place.ts";
import type { StoredSnapshot } from "./snapshots/records.ts";
import { watchSnapshots } from "./snapshots/snapshots.ts";
import { watchVolumes, type StoredVolume, type VolumeSettings } from "./volumes/records.ts";

export interface Watched extends AsyncDisposable {
  readonly records: WatchCache<StoredSandbox>;
  readonly creations: WatchCache<StoredCreation>;
  readonly pods: WatchCache<Pod>;
  /** Undefined where snapshots are not offered: nothing is asked of them then. */
  readonly snapshots: WatchCache<StoredSnapshot> | undefined;
  /** The same of volumes. */
  readonly volumes: WatchCache<StoredVolume> | undefined;
  /** Resolves when all that there is is known. */
  readonly filled: Promise<unknown>;
}

export function watchCluster({
  api,
  log,
  snapshotSettings,
  volumeSettings,
}: {
  readonly api: ClusterApi;
  readonly log: Logger;
  readonly snapshotSettings?: SnapshotSettings | undefined;
  readonly volumeSettings?: VolumeSettings | undefined;
}): Watched {
  const stack = new AsyncDisposableStack();
  const maps = { api, log, kind: "configmaps" } as const;
  const selector = `${MANAGED}=${MANAGER}`;
  const records = stack.use(
    startWatchCache({ ...maps, selector: RECORD_SELECTOR, schema: storedSchema }),
  );
  const creations = stack.use(
    startWatchCache({ ...maps, selector: CREATION_SELECTOR, schema: storedCreationSchema }),
  );
  const pods = stack.use(startWatchCache({ api, log, kind: "pods", selector, schema: podSchema }));
  const snapshots = snapshotSettings && stack.use(watchSnapshots(api, log));
  const volumes = volumeSettings && stack.use(watchVolumes(api, log));
  const caches = [records, creations, pods, snapshots, volumes];
  return {
    records,
    creations,
    pods,
    snapshots,
    volumes,
    filled: Promise.all(caches.map(async (cache) => cache?.filled)),
    [Symbol.asyncDispose]: async () => stack.disposeAsync(),
  };
}
