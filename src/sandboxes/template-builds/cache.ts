/**
 * Layers of build steps, found by the hash of all that made them. A cached step is a build record
 * of its own that no template has; a running build holds a record of its layers, too.
 */

import { sha256Hex } from "../../common/hash.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import type { Folders, Services, Tenant } from "../context.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import type { BuildStep } from "./build-request.ts";
import { withoutHeld } from "./hold.ts";
import type { StepState } from "./run-step.ts";

/** Changes with what steps do, so that layers of another version are not used. */
const CACHE_VERSION = 3;
/** Steps of a team that are kept, the newest; a layer is as large as what its step wrote. */
const MAX_CACHED_STEPS = 500;
/** Steps that were made longer ago are made anew. */
const MAX_AGE_MS = 14 * 24 * 3_600_000;

/** Templates of cached steps do not exist: no client can refer to them. */
const TEMPLATE_PREFIX = "cache:";

export function cacheTemplateId({ team }: Pick<Tenant, "team">): string {
  return `${TEMPLATE_PREFIX}${team}`;
}

/** Whether a build is a cached step, of any team. */
export function isCachedStep({ templateId, status }: BuildRecord): boolean {
  return templateId.startsWith(TEMPLATE_PREFIX) && status === "ready";
}

/** What the first step of a build stands on. Teams share no steps, and a Dockerfile has another shell. */
export function baseKey(
  team: string,
  build: BuildRecord,
  { isDockerfile, ...state }: StepState & { readonly isDockerfile: boolean },
): string {
  const disk = build.disk === undefined ? [] : [build.disk];
  const shell = isDockerfile ? ["dockerfile"] : [];
  return hash([CACHE_VERSION, team, build.layers, state, ...disk, ...shell]);
}

export function stepKey(parent: string, { type, args, filesHash = "" }: BuildStep): string {
  return hash([parent, type, args, filesHash]);
}

/** What the whole of a template is made of. */
export function finalKey(parent: string, setup: unknown): string {
  return hash([parent, "final", setup]);
}

function hash(parts: readonly unknown[]): string {
  return sha256Hex(JSON.stringify(parts));
}

/** Forgets steps that are old or too many, with the layers that nothing else names but for images. */
export async function evictSteps(
  context: Pick<Services, "store" | "clock" | "log" | "retry"> & Pick<Folders, "layersDirectory">,
): Promise<void> {
  const { store, clock, layersDirectory } = context;
  const folders = forgetOldSteps(store, clock.now());
  await cleanUpOrRetry(context, "layers of cached steps", () =>
    removeLayers(layersDirectory, folders),
  );
}

/** Returns the folders that nothing names any more. What a running build holds is forgotten after it. */
export function forgetOldSteps(store: Store, nowMs: number): string[] {
  return store.transaction(() => {
    const steps = store.builds
      .withoutTemplate()
      .filter(isCachedStep)
      .toSorted((left, right) => right.createdAtMs - left.createdAtMs);
    const counts = new Map<string, number>();
    const due = steps.filter(({ templateId, createdAtMs }) => {
      const count = (counts.get(templateId) ?? 0) + 1;
      counts.set(templateId, count);
      // By the distance in time: the clock may have been set back.
      return count > MAX_CACHED_STEPS || Math.abs(nowMs - createdAtMs) > MAX_AGE_MS;
    });
    const old = withoutHeld(store, due);
    for (const { buildId } of old) store.builds.remove(buildId);
    return unnamedFolders(store, old);
  });
}
