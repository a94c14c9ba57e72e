/** What the templates of one team may take: their number, and the disk of their layers. */

import { SandboxError } from "../../common/errors.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { layerFolders, removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import { forgetLive } from "../builds/live-builds.ts";
import type { Folders, Services, Tenant } from "../context.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { cacheTemplateId, isCachedStep } from "./cache.ts";
import { forgetOldestSteps } from "./free-space.ts";
import type { LayerSizes } from "./layer-sizes.ts";

const MAX_TEMPLATES = 1_000;
/** Cached steps count, and are the first to go. The disk has bounds of its own. */
const MAX_BYTES = 64 * 1024 ** 3;
/** Ready builds of a template that no tag and no sandbox names, the newest. */
const MAX_UNNAMED_BUILDS = 50;
const BYTES_PER_MIB = 1024 ** 2;
/** Layers of every team. */
const BUILT_IN_PATTERN = /^(?:base|host|interpreter)-/;

type TeamContext = Pick<
  Services & Tenant & Folders,
  "store" | "team" | "layersDirectory" | "log" | "retry"
>;
type RemovalContext = Pick<Services & Folders, "store" | "layersDirectory" | "cleanUpLater">;

/**
 * Makes sure that a team may have one more template.
 * @throws SandboxError resource_exhausted
 */
export function requireTemplatePlace({ store, team }: Pick<TeamContext, "store" | "team">): void {
  if (ownTemplateIds(store, team).length < MAX_TEMPLATES) return;
  throw new SandboxError(
    "resource_exhausted",
    `a team has at most ${MAX_TEMPLATES} templates: remove one to build another`,
  );
}

/**
 * Makes sure that the layers of a team are within their bound, at the cost of its cached steps.
 * @throws SandboxError resource_exhausted
 */
export async function requireLayerSpace(
  context: TeamContext,
  sizes: LayerSizes,
  maxBytes: number = MAX_BYTES,
): Promise<void> {
  for (;;) {
    const bytes = await sizes(foldersOf(context));
    if (bytes <= maxBytes) return;
    const own = cacheTemplateId(context);
    const isMeant = (build: BuildRecord) => build.templateId === own && isCachedStep(build);
    const forgotten = forgetOldestSteps(context.store, isMeant);
    if (forgotten === undefined) throw tooLarge(bytes, maxBytes);
    await cleanUpOrRetry(context, "layers of cached steps", () =>
      removeLayers(context.layersDirectory, forgotten.folders),
    );
  }
}

function tooLarge(bytes: number, maxBytes: number): SandboxError {
  const [present, most] = [bytes, maxBytes].map((amount) => Math.round(amount / BYTES_PER_MIB));
  const message =
    `the layers of the team's templates have ${present} MiB of at most ${most} MiB: ` +
    "remove templates to build others";
  return new SandboxError("resource_exhausted", message);
}

function ownTemplateIds(store: Store, team: string): string[] {
  return store.templates
    .allBuilt()
    .filter(({ kind, team: owner }) => kind === "template" && owner === team)
    .map(({ templateId }) => templateId);
}

/** Of templates, cached steps and running builds, each once. */
function foldersOf({ store, team }: TeamContext): string[] {
  const own = [...ownTemplateIds(store, team), cacheTemplateId({ team })];
  const builds = own.flatMap((templateId) => store.builds.ofTemplate(templateId));
  const folders = new Set(builds.flatMap(layerFolders));
  return [...folders].filter((folder) => !BUILT_IN_PATTERN.test(folder));
}

function oldestFirst(builds: readonly BuildRecord[]): BuildRecord[] {
  return builds.toSorted((left, right) => left.createdAtMs - right.createdAtMs);
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
