/** Templates: which layers a reference means, and what is known about each template. */

import { SandboxError } from "../common/errors.ts";
import type { Layer } from "../engine/engine.ts";
import type { BuildRecord, Store, TemplateRecord } from "../store/store.ts";
import { templateMissing } from "../wire/messages.ts";
import {
  registerBuiltIn,
  toStoredLayer,
  type StoredLayer,
  type TemplatesOptions,
} from "./built-ins.ts";
import { paginate, type Page, type PageRequest } from "./paging.ts";
import {
  lookUp,
  requireReference,
  resolveTemplate,
  type ResolvedTemplate,
} from "./resolve-template.ts";
import { removeLayers, unnamedFolders } from "./write-build.ts";

/** A template and a build, as other rooms may see them. */
export type Template = TemplateRecord;
export type Build = BuildRecord;

export interface Templates {
  /**
   * What a new sandbox starts from.
   * @throws SandboxError invalid_argument when malformed, not_found when unknown.
   */
  resolve(reference: string, signal: AbortSignal): Promise<ResolvedTemplate>;
  /**
   * The template of a reference, whatever its tag; undefined when there is none.
   * @throws SandboxError invalid_argument when malformed.
   */
  peek(reference: string): TemplateRecord | undefined;
  builds(template: TemplateRecord, page: PageRequest): Page<BuildRecord>;
  /** Built-in templates that are offered here, oldest first, each with its newest build. */
  list(): readonly { readonly template: TemplateRecord; readonly builds: readonly BuildRecord[] }[];
  /**
   * Removes it with all builds and tags, and every layer that nothing else stands on.
   * @throws SandboxError not_found, permission_denied for a built-in or a public one of another
   * team, invalid_argument while in use.
   */
  remove(reference: string): Promise<void>;
  /** A layer as builds store it. */
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
  const { store, builtIns, layersDirectory } = options;
  const peek = (reference: string) => lookUp(options, requireReference(reference));

  return {
    resolve: (reference, signal) => resolveTemplate(options, reference, signal),
    peek,
    builds: (template, page) =>
      paginate(
        store.builds.ofTemplate(template.templateId),
        ({ createdAtMs, buildId }) => ({ atMs: createdAtMs, id: buildId }),
        page,
      ),
    list: () =>
      store.templates
        .all()
        .filter(({ name }) => builtIns.some((builtIn) => builtIn.name === name))
        .toSorted((left, right) => left.createdAtMs - right.createdAtMs)
        .map((template) => ({ template, builds: readyBuilds(store, template.templateId) })),
    async remove(reference) {
      const template = peek(reference);
      if (template === undefined) throw new SandboxError("not_found", templateMissing(reference));
      if (template.kind === "built-in" || template.team !== options.team) {
        throw new SandboxError(
          "permission_denied",
          `You don't have access to template '${reference}'`,
        );
      }
      await removeLayers(layersDirectory, eraseTemplate(store, template.templateId));
    },
    toStored: (layer) => toStoredLayer(layersDirectory, layer),
  };
}

function readyBuilds(store: Store, templateId: string): BuildRecord[] {
  return store.builds.ofTemplate(templateId).filter((build) => build.status === "ready");
}

/** Removes the rows; returns the layers that no row names any more. */
function eraseTemplate(store: Store, templateId: string): string[] {
  return store.transaction(() => {
    if (store.sandboxes.countOfTemplate(templateId) > 0) {
      throw new SandboxError(
        "invalid_argument",
        `cannot delete template '${templateId}' because there are running sandboxes using it`,
      );
    }
    const builds = store.builds.ofTemplate(templateId);
    store.templates.remove(templateId);
    return unnamedFolders(store, builds);
  });
}
