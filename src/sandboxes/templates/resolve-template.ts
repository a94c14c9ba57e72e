/** From a reference to the layers that it means. */

import { SandboxError } from "../../common/errors.ts";
import type { BuildRecord, TemplateRecord } from "../../store/store.ts";
import { parseTemplateReference, type TemplateReference } from "../../wire/address.ts";
import { tagMissing, templateMissing } from "../../wire/messages.ts";
import {
  DEFAULT_TAG,
  registerBuiltIn,
  type BuiltInTemplate,
  type TemplatesOptions,
} from "./built-ins.ts";

export interface ResolvedTemplate {
  readonly template: TemplateRecord;
  readonly build: BuildRecord;
}

/** How long a caller waits for a built-in that is being built. */
export interface ResolveLimits {
  readonly signal: AbortSignal;
  /** Undefined: until it is built or fails. */
  readonly waitMs?: number | undefined;
}

/**
 * What a new sandbox starts from. A built-in is looked for on disk each time, so that one that was
 * built meanwhile counts.
 * @throws SandboxError invalid_argument when malformed, not_found when unknown, unavailable while it
 * is being built.
 */
export async function resolveTemplate(
  options: TemplatesOptions,
  reference: string,
  { signal, waitMs }: ResolveLimits,
): Promise<ResolvedTemplate> {
  const { store } = options;
  const parsed = await withFallback(options, withoutAlias(options, requireReference(reference)));
  const builtIn = findBuiltIn(options, parsed);
  if (builtIn !== undefined) {
    const layers = (await builtIn.find()) ?? (await builtIn.prepare?.(signal, waitMs));
    if (layers === undefined) throw new SandboxError("not_found", templateMissing(reference));
    registerBuiltIn(options, builtIn, layers);
  }
  const template = lookUpMade(options, parsed) ?? lookUp(options, parsed);
  if (template === undefined) throw new SandboxError("not_found", templateMissing(reference));
  const tag = parsed.tag ?? DEFAULT_TAG;
  const build = store.builds.tagged(template.templateId, tag);
  if (build === undefined) throw new SandboxError("not_found", tagMissing(tag, reference));
  if (!isOffered(options, build)) {
    throw new SandboxError("not_found", templateMissing(reference), {
      hint: "it stands on a built-in template that this service was not allowed to offer",
    });
  }
  return { template, build };
}

/** @throws SandboxError invalid_argument when malformed. */
export function requireReference(reference: string): TemplateReference {
  const parsed = parseTemplateReference(reference);
  if (parsed !== undefined) return parsed;
  throw new SandboxError(
    "invalid_argument",
    `Invalid template reference: invalid template ID: ${reference.slice(0, 200)}`,
  );
}

/**
 * Own names come first, then those without a namespace, then identifiers. What is another team's
 * and not public is not there.
 */
export function lookUp(options: Scope, reference: TemplateReference): TemplateRecord | undefined {
  return candidates(options, reference)[0];
}

type Scope = Pick<TemplatesOptions, "store" | "team">;

/** The first that a build has made: until then a name still means what it meant before. */
function lookUpMade(options: Scope, reference: TemplateReference): TemplateRecord | undefined {
  return candidates(options, reference).find((template) => isMade(options, template));
}

function isMade({ store }: Scope, { templateId }: TemplateRecord): boolean {
  return store.builds.readyOf(templateId).amount > 0;
}

function candidates({ store, team }: Scope, reference: TemplateReference): TemplateRecord[] {
  const { namespace, alias } = reference;
  const found =
    namespace === undefined
      ? [
          store.templates.getByName(`${team}/${alias}`),
          store.templates.getByName(alias),
          store.templates.get(alias),
        ]
      : [store.templates.getByName(`${namespace}/${alias}`)];
  return found
    .filter((template) => template !== undefined)
    .filter((template) => template.isPublic || template.team === team);
}

/** The built-in that a reference means, unless an own template was made that has its name. */
function findBuiltIn(
  options: TemplatesOptions,
  { namespace, alias }: TemplateReference,
): BuiltInTemplate | undefined {
  const { store, team, builtIns } = options;
  if (namespace !== undefined) return undefined;
  const own = store.templates.getByName(`${team}/${alias}`);
  if (own !== undefined && isMade(options, own)) return undefined;
  const known = store.templates.get(alias);
  const name = known?.kind === "built-in" ? known.name : alias;
  return builtIns.find((candidate) => candidate.name === name);
}

/** The reference by the built-in's own name. */
function withoutAlias(options: TemplatesOptions, parsed: TemplateReference): TemplateReference {
  if (parsed.namespace !== undefined || lookUpMade(options, parsed) !== undefined) return parsed;
  const named = options.builtIns.find(({ aliases }) => aliases?.includes(parsed.alias));
  return named === undefined ? parsed : { ...parsed, alias: named.name };
}

async function withFallback(
  options: TemplatesOptions,
  parsed: TemplateReference,
): Promise<TemplateReference> {
  const fallback = parsed.namespace === undefined ? options.fallbacks[parsed.alias] : undefined;
  const builtIn = findBuiltIn(options, parsed);
  if (fallback === undefined || builtIn === undefined) return parsed;
  if ((await builtIn.find()) !== undefined) return parsed;
  options.log.warn(
    { op: "template.resolve", template: parsed.alias, fallback },
    "template was not built: its fallback is used",
  );
  return { ...parsed, alias: fallback };
}

/** Whether no layer belongs to a built-in that is withheld here. */
function isOffered({ store, withheld }: TemplatesOptions, build: BuildRecord): boolean {
  const refused = withheld
    .flatMap((name) => store.templates.getByName(name) ?? [])
    .flatMap(({ templateId }) => store.builds.ofTemplate(templateId))
    .flatMap(({ layers }) => layers.map(({ root }) => root));
  return !build.layers.some(({ root }) => refused.includes(root));
}
