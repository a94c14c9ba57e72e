/** What the templates of one team may take: their number, and the disk of their layers. */

import { SandboxError } from "../../common/errors.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { layerFolders, removeLayers } from "../builds/layer-folders.ts";
import type { Folders, Services, Tenant } from "../context.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { cacheTemplateId, isCachedStep } from "./cache.ts";
import { forgetOldestSteps } from "./free-space.ts";
import type { LayerSizes } from "./layer-sizes.ts";

const MAX_TEMPLATES = 1_000;
/** Cached steps count, and are the first to go. The disk has bounds of its own. */
const MAX_BYTES = 64 * 1024 ** 3;
const BYTES_PER_MIB = 1024 ** 2;
/** Layers of every team. */
const BUILT_IN_PATTERN = /^(?:base|host|interpreter)-/;

type TeamContext = Pick<
  Services & Tenant & Folders,
  "store" | "team" | "layersDirectory" | "log" | "retry"
>;

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
