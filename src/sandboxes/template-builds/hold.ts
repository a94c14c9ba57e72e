/** Layers that a running build stands on are named by its own record, so that nothing removes them. */

import { SandboxError } from "../../common/errors.ts";
import { isOpenTree } from "../../common/tree-modes.ts";
import type { TemplateBuildRecord } from "../../store/build-records.ts";
import type { BuildRecord, Store, TemplateRecord } from "../../store/store.ts";
import { layerFolders, toLayers } from "../builds/layer-folders.ts";
import type { Folders, Services, Tenant } from "../context.ts";

type HoldContext = Pick<Services, "store" | "clock"> & Pick<Tenant, "owner">;

interface Holder {
  readonly record: TemplateBuildRecord;
  readonly template: TemplateRecord;
}

/** From now on the build stands on the layers of this one, or on its disk; no build goes on from memory. */
export function hold(
  { store, clock, owner }: HoldContext,
  { record, template }: Holder,
  build: BuildRecord,
): void {
  const { cacheKey: _key, memory: _memory, ...rest } = build;
  store.builds.put({
    ...rest,
    buildId: record.buildId,
    templateId: template.templateId,
    owner,
    status: "building",
    sourceSandboxId: null,
    createdAtMs: record.createdAtMs,
    updatedAtMs: clock.now(),
    finishedAtMs: null,
  });
}

/**
 * As `hold`, for a build that was found and may be gone since: another service of the home removes it
 * together with its layers.
 * @throws SandboxError not_found when it was removed
 */
export function holdFound(context: HoldContext, holder: Holder, build: BuildRecord): void {
  if (!holdIfThere(context, holder, build)) {
    throw new SandboxError("not_found", "the template that the build stands on was removed");
  }
}

function holdIfThere(context: HoldContext, holder: Holder, build: BuildRecord): boolean {
  const { store } = context;
  return store.transaction(() => {
    const isThere = store.builds.get(build.buildId) !== undefined;
    if (isThere) hold(context, holder, build);
    return isThere;
  });
}

/**
 * Those of these cached steps on which no build stands that is running: a build that goes on to other
 * layers removes none, so only the row of the step leads to those that it leaves.
 */
export function withoutHeld(
  { builds }: Pick<Store, "builds">,
  steps: readonly BuildRecord[],
): BuildRecord[] {
  const held = new Set(builds.unfinished().flatMap(layerFolders));
  return steps.filter((build) => {
    const names = layerFolders(build);
    return names.length === 0 || names.some((name) => !held.has(name));
  });
}

/**
 * The last of these keys that a cached step has whose layers have not lost modes since, as in a home after
 * `chmod -R`, and that step, which the build stands on from now on. What the build stood on stays held
 * until then: another service of the home may be about to forget a step, with its layers.
 */
export async function holdCached(
  context: HoldContext & Pick<Folders, "layersDirectory">,
  holder: Holder,
  keys: readonly string[],
): Promise<CachedStep | undefined> {
  const { store, layersDirectory } = context;
  for (let left = keys; ;) {
    const found = findCached(store, left);
    if (found === undefined) return undefined;
    if (
      (await isIntact(layersDirectory, found.build)) &&
      holdIfThere(context, holder, found.build)
    ) {
      return found;
    }
    left = left.slice(0, found.index);
  }
}

interface CachedStep {
  readonly build: BuildRecord;
  readonly index: number;
}

function findCached({ builds }: Pick<Store, "builds">, keys: readonly string[]) {
  for (let index = keys.length - 1; index >= 0; index -= 1) {
    const build = builds.cached(keys[index] ?? "");
    if (build !== undefined) return { build, index };
  }
  return undefined;
}

async function isIntact(layersDirectory: string, build: BuildRecord): Promise<boolean> {
  for (const { root } of toLayers(layersDirectory, build)) {
    if (!(await isOpenTree(root))) return false;
  }
  return true;
}
