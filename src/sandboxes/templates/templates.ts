/** Templates: which layers a reference means, and what is known about each template. */

import { SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import type { Layer } from "../../engine/engine.ts";
import type { TemplateBuildRecord } from "../../store/build-records.ts";
import type { BuildRecord, BuildTag, Store, TemplateRecord } from "../../store/store.ts";
import { templateInUse } from "../../wire/messages.ts";
import { limitsOf } from "../builds/build-limits.ts";
import { removeLayers, unnamedFolders } from "../builds/layer-folders.ts";
import {
  comparePositions,
  paginate,
  type Page,
  type PageRequest,
  type Position,
} from "../paging.ts";
import { removeOldBuilds } from "../template-builds/old-builds.ts";
import {
  registerBuiltIn,
  toStoredLayer,
  type StoredLayer,
  type TemplatesOptions,
} from "./built-ins.ts";
import { pruneImagesInService } from "./image-templates.ts";
import {
  lookUp,
  requireReference,
  resolveTemplate,
  type ResolvedTemplate,
  type ResolveLimits,
} from "./resolve-template.ts";
import {
  assignTags,
  listAssignments,
  listTags,
  publishTemplate,
  removeTags,
  requireRemovable,
  type AssignedTags,
  type TagAssignment,
} from "./template-tags.ts";

/** A template and a build, as other modules may see them. */
export type Template = TemplateRecord;
export type Build = BuildEntry;
export type Tag = BuildTag;

/** A build in a list, whether or not it has made something. */
type BuildEntry = Pick<
  BuildRecord,
  "buildId" | "createdAtMs" | "updatedAtMs" | "finishedAtMs" | "limits" | "setup"
> & { readonly status: TemplateBuildRecord["status"] };

/** A template in a list: one with a build that is ready. */
export interface ListedTemplate {
  readonly template: TemplateRecord;
  /** The newest build that is ready. */
  readonly newest: BuildEntry;
  /** Of those that are ready. */
  readonly buildCount: number;
}

export interface Templates {
  /**
   * What a new sandbox starts from.
   * @throws SandboxError invalid_argument when malformed, not_found when unknown, unavailable while
   * it is being built.
   */
  resolve(reference: string, limits: ResolveLimits): Promise<ResolvedTemplate>;
  /**
   * The template of a reference, whatever its tag; undefined when there is none.
   * @throws SandboxError invalid_argument when malformed.
   */
  peek(reference: string): TemplateRecord | undefined;
  builds(template: TemplateRecord, page: PageRequest): Page<BuildEntry>;
  /** Oldest first. */
  list(): readonly ListedTemplate[];
  /**
   * Removes it with all builds and tags, and every layer that nothing else stands on; builds that
   * this instance runs end.
   * @throws SandboxError not_found, also for a tag that it does not have, permission_denied for a
   * built-in or a public one of another team, invalid_argument while in use.
   */
  remove(reference: string): Promise<void>;
  /** As `publishTemplate`. */
  publish(reference: string, isPublic: boolean): string[];
  /** As `assignTags`. */
  tag(target: string, tags: readonly string[]): AssignedTags;
  /** As `removeTags`. */
  untag(name: string, tags: readonly string[]): void;
  /** As `listTags`. */
  tags(reference: string): BuildTag[];
  /** As `listAssignments`. */
  assignments(reference: string): TagAssignment[];
  toStored(layer: Layer): StoredLayer;
}

/** Makes known which built-in templates exist on disk. */
export async function registerBuiltIns(options: TemplatesOptions): Promise<void> {
  for (const builtIn of options.builtIns) {
    const layers = await builtIn.find();
    if (layers !== undefined) registerBuiltIn(options, builtIn, layers);
  }
}

/** The templates as a team sees them. */
export function createTemplates(options: TemplatesOptions): Templates {
  const { store, layersDirectory } = options;
  const peek = (reference: string) => lookUp(options, requireReference(reference));
  /** A build that lost its last tag has no use for the memory that was kept for its sandboxes. */
  const forgetUntagged = (reference: string) => {
    options.cleanUpLater(`old builds of ${reference}`, async () => {
      const template = lookUp(options, requireReference(reference));
      if (template !== undefined) removeOldBuilds(options, template.templateId);
    });
  };

  return {
    resolve: (reference, limits) => resolveTemplate(options, reference, limits),
    peek,
    builds: (template, page) =>
      paginate(
        [...made(options, template), ...unmade(options, template)],
        { positionOf: ({ createdAtMs, buildId }) => ({ atMs: createdAtMs, id: buildId }) },
        page,
      ),
    list: () =>
      store.templates
        .allBuilt()
        .filter((template) => isListed(options, template))
        .toSorted((left, right) => comparePositions(positionOf(left), positionOf(right), "asc"))
        .flatMap((template) => {
          const { newest, amount } = store.builds.readyOf(template.templateId);
          if (newest === undefined) return [];
          return { template, newest: withLimits(options, newest), buildCount: amount };
        }),
    async remove(reference) {
      const { templateId } = requireRemovable(options, reference);
      const erase = () => eraseTemplate(store, templateId);
      const folders = await options.pool.without(templateId, erase);
      options.cancelBuilds(templateId);
      // Nothing names them any more: a client that waited for files would only wait for the disk.
      options.cleanUpLater(`layers of ${templateId}`, async (signal) => {
        await step("template.erased");
        await removeLayers(layersDirectory, folders, signal);
        await pruneImagesInService(options);
        await step("template.removed");
      });
    },
    publish: (reference, isPublic) => publishTemplate(options, reference, isPublic),
    tag(target, tags) {
      const assigned = assignTags(options, target, tags);
      forgetUntagged(target);
      return assigned;
    },
    untag(name, tags) {
      removeTags(options, name, tags);
      forgetUntagged(name);
    },
    tags: (reference) => listTags(options, reference),
    assignments: (reference) => listAssignments(options, reference),
    toStored: (layer) => toStoredLayer(layersDirectory, layer),
  };
}

function positionOf({ createdAtMs, templateId }: TemplateRecord): Position {
  return { atMs: createdAtMs, id: templateId };
}

/** Those that are offered here to everyone, and those that the team may see and were built. */
function isListed({ builtIns, team }: TemplatesOptions, template: TemplateRecord): boolean {
  if (template.kind === "template") return template.isPublic || template.team === team;
  return builtIns.some((builtIn) => builtIn.name === template.name);
}

/** Builds that have made nothing: those that wait, and those that failed. */
function unmade({ store, limits }: TemplatesOptions, { templateId }: TemplateRecord): BuildEntry[] {
  return store.templateBuilds
    .ofTemplate(templateId)
    .filter(({ status }) => status === "waiting" || status === "error")
    .map(({ cpus = limits.cpus, memoryMb = limits.memoryMb, ...build }) => ({
      ...build,
      limits: { ...limits, cpus, memoryMb },
    }));
}

/** Builds that have made something, with the limits that a sandbox of theirs gets now. */
function made(options: TemplatesOptions, { templateId }: TemplateRecord): BuildRecord[] {
  return options.store.builds.ofTemplate(templateId).map((build) => withLimits(options, build));
}

function withLimits({ limits }: TemplatesOptions, build: BuildRecord): BuildRecord {
  return { ...build, limits: limitsOf(limits, build) };
}

/**
 * Removes the rows; returns the layers that no row names any more.
 * @throws SandboxError invalid_argument while in use
 */
export function eraseTemplate(store: Store, templateId: string): string[] {
  return store.transaction(() => {
    if (store.sandboxes.countOfTemplate(templateId) > 0) {
      throw new SandboxError("invalid_argument", templateInUse(templateId));
    }
    const builds = store.builds.ofTemplate(templateId);
    for (const { buildId } of store.templateBuilds.ofTemplate(templateId)) {
      store.buildLines.remove(buildId);
    }
    store.templates.remove(templateId);
    return unnamedFolders(store, builds);
  });
}
