/** The builds of a template or snapshot that no tag names any more. */

import type { BuildRecord, Store } from "../../store/store.ts";
import { removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import { forgetLive } from "../builds/live-builds.ts";
import type { CleanupRetries } from "../retry-cleanup.ts";

/** Ready builds of a template that no tag and no sandbox names, the newest. */
const MAX_UNNAMED_BUILDS = 50;

interface RemovalContext extends Pick<CleanupRetries, "cleanUpLater"> {
  readonly store: Store;
  readonly layersDirectory: string;
}

/**
 * Forgets builds of a template that were replaced long ago. The layers that nothing else names go later:
 * they may be many, and no client has to wait for them.
 */
export function removeOldBuilds(
  { store, layersDirectory, cleanUpLater }: RemovalContext,
  templateId: string,
): void {
  const folders = forgetOldBuilds(store, templateId);
  if (folders.length === 0) return;
  cleanUpLater(`old builds of ${templateId}`, (signal) =>
    removeLayers(layersDirectory, folders, signal),
  );
}

/** Returns the folders that nothing names any more. */
export function forgetOldBuilds(store: Store, templateId: string): string[] {
  return store.transaction(() => {
    const tagged = new Set(store.builds.tags(templateId).map(({ buildId }) => buildId));
    const unnamed = store.builds
      .ofTemplate(templateId)
      .filter(({ buildId, status }) => status === "ready" && !tagged.has(buildId))
      .filter(({ buildId }) => store.sandboxes.countOfBuild(buildId) === 0);
    const old = oldestFirst(unnamed).slice(0, Math.max(0, unnamed.length - MAX_UNNAMED_BUILDS));
    // Images of memory are large; a build that lost its own runs its commands.
    const live = forgetLive(store, unnamed);
    for (const { buildId } of old) store.builds.remove(buildId);
    return unnamedFolders(store, [...old, ...live]);
  });
}

function oldestFirst(builds: readonly BuildRecord[]): BuildRecord[] {
  return builds.toSorted((left, right) => left.createdAtMs - right.createdAtMs);
}
