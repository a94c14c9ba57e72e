/** Cached steps and sent archives are the first to go where space is wanted: builds make and ask for them anew. */

import { join } from "node:path";
import { hasErrorCode, type ErrorWord } from "../../common/errors.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { hasImage, layerFolders, removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import type { Folders, Services } from "../context.ts";
import { requireDiskSpace } from "../disks/disk-space.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { pruneImagesInService } from "../templates/image-templates.ts";
import { isCachedStep } from "./cache.ts";
import { withoutHeld } from "./hold.ts";
import { removeIdle, UPLOADS } from "./uploads.ts";

type SpaceContext = Pick<Services, "store" | "clock" | "log" | "retry"> &
  Pick<Folders, "directory" | "layersDirectory" | "home">;

/**
 * Makes sure that the disk of the home has space for something new, at the cost of the cached steps of
 * all teams and of archives that builds were sent.
 * @throws SandboxError resource_exhausted when less than the reserve is free without them.
 */
export async function requireSpace(
  context: SpaceContext,
  word?: ErrorWord,
  check: typeof requireDiskSpace = requireDiskSpace,
): Promise<void> {
  for (;;) {
    try {
      return await check(context.directory, word);
    } catch (error) {
      if (!hasErrorCode(error, "resource_exhausted")) throw error;
      if (!(await removeCached(context))) throw error;
    }
  }
}

/** Whether there was something to remove. */
async function removeCached(context: SpaceContext): Promise<boolean> {
  const { store, clock, home, log } = context;
  const forgotten = forgetOldestSteps(store, isCachedStep);
  if (forgotten === undefined) {
    const isOpen = store.templateBuilds.open().length > 0;
    return removeIdle(join(home, UPLOADS), clock.now(), isOpen);
  }
  const amount = forgotten.steps.length;
  log.warn({ op: "disk.space", amount }, "cached steps removed: the disk is full");
  await removeForgotten(context, forgotten);
  return true;
}

async function removeForgotten(context: SpaceContext, { folders, steps }: Forgotten) {
  const { layersDirectory } = context;
  await cleanUpOrRetry(context, "layers of cached steps", async () => {
    await removeLayers(layersDirectory, folders);
    if (hasImage(steps.flatMap(layerFolders))) await pruneImagesInService(context);
  });
}

export interface Forgotten {
  readonly steps: readonly BuildRecord[];
  /** Those that nothing names any more. */
  readonly folders: readonly string[];
}

/**
 * Forgets the older half of the cached steps that are meant; undefined where there are none. Those on
 * which a build stands that is running give no space.
 */
export function forgetOldestSteps(
  store: Store,
  isMeant: (build: BuildRecord) => boolean,
): Forgotten | undefined {
  return store.transaction(() => {
    const cached = store.builds.withoutTemplate().filter(isMeant);
    const free = withoutHeld(store, cached);
    if (free.length === 0) return undefined;
    const oldest = free.toSorted((left, right) => left.createdAtMs - right.createdAtMs);
    const steps = oldest.slice(0, Math.ceil(oldest.length / 2));
    for (const { buildId } of steps) store.builds.remove(buildId);
    return { steps, folders: unnamedFolders(store, steps) };
  });
}
