/** What a template of a team is called by its tags, and who may see it. */

import { SandboxError } from "../../common/errors.ts";
import type { BuildRecord, BuildTag, TemplateRecord } from "../../store/store.ts";
import {
  parseTemplateReference,
  UUID_PATTERN,
  type TemplateReference,
} from "../../wire/address.ts";
import {
  foreignNamespace,
  tagMissing,
  templateForbidden,
  templateMissing,
} from "../../wire/messages.ts";
import { DEFAULT_TAG, type TemplatesOptions } from "./built-ins.ts";
import { lookUp, requireReference } from "./resolve-template.ts";

/** Each is a row; a request that names more is no honest one. */
const MAX_TAGS = 100;
/** A list tells all of them at once. */
const MAX_TAGS_OF_TEMPLATE = 1_000;

/** Tags that were given, and the build on which they stand now. */
export interface AssignedTags {
  readonly tags: readonly string[];
  readonly buildId: string;
}

/**
 * The template of a reference, for a change.
 * @throws SandboxError invalid_argument when malformed, not_found, permission_denied unless it is
 * the team's own.
 */
export function requireOwnTemplate(
  options: Pick<TemplatesOptions, "store" | "team">,
  reference: string,
): TemplateRecord {
  const template = lookUp(options, requireReference(reference));
  if (template === undefined) throw new SandboxError("not_found", templateMissing(reference));
  if (template.kind !== "built-in" && template.team === options.team) return template;
  throw new SandboxError("permission_denied", templateForbidden(reference));
}

/**
 * The template of a reference, which goes as a whole; a tag that it does not have is a mistake.
 * @throws SandboxError as `requireOwnTemplate`, and not_found for such a tag.
 */
export function requireRemovable(options: TemplatesOptions, reference: string): TemplateRecord {
  const template = requireOwnTemplate(options, reference);
  const { templateId } = template;
  const { tag } = requireReference(reference);
  if (tag === undefined) return template;
  const { builds, templateBuilds } = options.store;
  // A build that has made nothing has its tags in its own record alone.
  const isOfBuild = templateBuilds.ofTemplate(templateId).some(({ tags }) => tags.includes(tag));
  if (isOfBuild || builds.tagged(templateId, tag) !== undefined) return template;
  throw new SandboxError("not_found", tagMissing(tag, reference));
}

/**
 * Lets every team see it, or only its own again; returns its names.
 * @throws SandboxError as `requireOwnTemplate`.
 */
export function publishTemplate(
  options: TemplatesOptions,
  reference: string,
  isPublic: boolean,
): string[] {
  const { store, clock } = options;
  return store.transaction(() => {
    const template = requireOwnTemplate(options, reference);
    if (template.isPublic !== isPublic) {
      store.templates.put({ ...template, isPublic, updatedAtMs: clock.now() });
    }
    return template.name === null ? [] : [template.name];
  });
}

/**
 * Puts tags on the build that the target means.
 * @throws SandboxError as `requireOwnTemplate`, and invalid_argument for a faulty tag or namespace,
 * not_found when the target's own tag is none.
 */
export function assignTags(
  options: TemplatesOptions,
  target: string,
  names: readonly string[],
): AssignedTags {
  const { store, clock } = options;
  const tags = requireTags(names);
  return store.transaction(() => {
    const reference = requireOwnReference(options, target);
    const { templateId } = requireOwnTemplate(options, target);
    const from = reference.tag ?? DEFAULT_TAG;
    const build = store.builds.tagged(templateId, from);
    if (build === undefined) throw new SandboxError("not_found", tagMissing(from, target));
    const { buildId } = build;
    requireTagPlace(options, templateId, tags);
    for (const tag of tags) {
      store.builds.tag({ templateId, tag, buildId, createdAtMs: clock.now() });
    }
    return { tags, buildId };
  });
}

/**
 * Makes sure that a template may have these tags besides those that it has.
 * @throws SandboxError resource_exhausted when they would be too many.
 */
export function requireTagPlace(
  { store }: Pick<TemplatesOptions, "store">,
  templateId: string,
  tags: readonly string[],
): void {
  const known = store.builds.tags(templateId).map(({ tag }) => tag);
  const amount = new Set([...known, ...tags]).size;
  // Moving a tag is always possible, also in a template of an older home that has more.
  if (amount <= Math.max(MAX_TAGS_OF_TEMPLATE, known.length)) return;
  const message = `a template has at most ${MAX_TAGS_OF_TEMPLATE} tags, this one ${known.length}`;
  throw new SandboxError("resource_exhausted", message);
}

/**
 * Takes tags away, all or none; their builds stay.
 * @throws SandboxError as `requireOwnTemplate`, and invalid_argument for a faulty tag or that of
 * references without one, not_found for a tag that the template does not have.
 */
export function removeTags(
  options: TemplatesOptions,
  name: string,
  names: readonly string[],
): void {
  const { store } = options;
  const tags = requireTags(names);
  if (tags.includes(DEFAULT_TAG)) {
    throw new SandboxError("invalid_argument", `Cannot delete the '${DEFAULT_TAG}' tag`);
  }
  store.transaction(() => {
    if (requireOwnReference(options, name).tag !== undefined) {
      throw new SandboxError("invalid_argument", "name must not carry a tag");
    }
    const { templateId } = requireOwnTemplate(options, name);
    for (const tag of tags) {
      if (store.builds.untag(templateId, tag)) continue;
      throw new SandboxError("not_found", `Template '${name}' with tag '${tag}' not found`);
    }
  });
}

/**
 * By name.
 * @throws SandboxError invalid_argument when malformed, not_found.
 */
export function listTags(options: TemplatesOptions, reference: string): BuildTag[] {
  const { store } = options;
  const template = lookUp(options, requireReference(reference));
  if (template === undefined) throw new SandboxError("not_found", templateMissing(reference));
  return store.builds.tags(template.templateId).map((tag) => ({
    ...tag,
    // Before tags had a time of their own they were as old as their build.
    createdAtMs: tag.createdAtMs || (store.builds.get(tag.buildId)?.createdAtMs ?? 0),
  }));
}

/** A tag and the ready build on which it stands. */
export interface TagAssignment {
  readonly tag: BuildTag;
  readonly build: BuildRecord;
}

/**
 * The tags that a sandbox can be started from, by name. A tag has one assignment, its present one.
 * @throws SandboxError as `listTags`.
 */
export function listAssignments(options: TemplatesOptions, reference: string): TagAssignment[] {
  return listTags(options, reference).flatMap((tag) => {
    const build = options.store.builds.get(tag.buildId);
    return build?.status === "ready" ? [{ tag, build }] : [];
  });
}

function requireOwnReference({ team }: TemplatesOptions, text: string): TemplateReference {
  const reference = requireReference(text);
  const { namespace } = reference;
  if (namespace === undefined || namespace === team) return reference;
  throw new SandboxError("invalid_argument", foreignNamespace(namespace, team));
}

/** Each once, in lower case. */
function requireTags(names: readonly string[]): string[] {
  if (names.length === 0) {
    throw new SandboxError("invalid_argument", "At least one tag is required");
  }
  if (names.length > MAX_TAGS) {
    throw new SandboxError("invalid_argument", `at most ${MAX_TAGS} tags can be named`);
  }
  return [...new Set(names.map(normalizeTag))];
}

/**
 * A tag as it is stored.
 * @throws SandboxError invalid_argument for a faulty one.
 */
export function normalizeTag(name: string): string {
  const tag = parseTemplateReference(`x:${name.trim()}`)?.tag;
  if (tag === undefined) {
    throw new SandboxError("invalid_argument", `invalid tag: ${name.slice(0, 200)}`);
  }
  // It could mean a build.
  if (UUID_PATTERN.test(tag)) {
    throw new SandboxError("invalid_argument", "tag cannot be a UUID");
  }
  return tag;
}
