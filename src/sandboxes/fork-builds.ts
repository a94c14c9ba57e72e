/**
 * The builds that forks start from. No template has them: the last sandbox on one takes it along.
 */

import type { BuildRecord, Store } from "../store/store.ts";
import type { Domain } from "./domain.ts";
import { cleanUpOrRetry } from "./retry-cleanup.ts";
import { removeLayers, unnamedFolders } from "./write-build.ts";

/** Another instance may still be starting the forks of a build this young. */
const MIN_AGE_MS = 10 * 60_000;

/** Forgets a build if only forks stood on it and none is left; any other one stays. */
export async function releaseForkBuild(domain: Domain, buildId: string): Promise<void> {
  const { store, layersDirectory, forking } = domain;
  if (forking.has(buildId)) return;
  const build = store.builds.get(buildId);
  if (build === undefined) return;
  const folders = store.transaction(() => forget(store, build));
  await cleanUpOrRetry(domain, `layers of ${buildId}`, () =>
    removeLayers(layersDirectory, folders),
  );
}

/** Forgets what forks of dead instances left; their layers are orphans then. */
export function forgetForkBuilds(store: Store, nowMs: number): void {
  for (const build of store.builds.all()) {
    if ((build.finishedAtMs ?? nowMs) > nowMs - MIN_AGE_MS) continue;
    store.transaction(() => forget(store, build));
  }
}

/** As `forgetForkBuilds`, for an instance that starts or is gone: none of its forks is under way. */
export function forgetOwnForkBuilds(store: Store, owner: string): void {
  for (const build of store.builds.all()) {
    if (build.owner === owner) store.transaction(() => forget(store, build));
  }
}

/** Returns the folders that nothing names any more. */
function forget(store: Store, build: BuildRecord): string[] {
  const { buildId, templateId, status } = build;
  if (status !== "ready" || store.templates.get(templateId) !== undefined) return [];
  if (store.sandboxes.countOfBuild(buildId) > 0) return [];
  store.builds.remove(buildId);
  return unnamedFolders(store, [build]);
}
