/** `template show NAME` and `template remove NAME`. */

import { dirname, join } from "node:path";
import { printFailure } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { readFacts } from "../../images/add-image.ts";
import type { UnpackedImage } from "../../images/images.ts";
import { limitsOf } from "../../sandboxes/builds/build-limits.ts";
import { removeLayers, toLayers } from "../../sandboxes/builds/layer-folders.ts";
import { pruneImages } from "../../sandboxes/templates/image-templates.ts";
import { lookUp, requireReference } from "../../sandboxes/templates/resolve-template.ts";
import { eraseTemplate } from "../../sandboxes/templates/templates.ts";
import { openStore } from "../../store/sqlite.ts";
import {
  DEFAULT_TEAM,
  type BuildRecord,
  type BuildTag,
  type Store,
  type TemplateRecord,
} from "../../store/store.ts";
import { tagMissing, templateMissing } from "../../wire/messages.ts";
import { EXIT_OK } from "../program/command.ts";

const DEFAULT_TAG = "default";
const MAX_TAGS_TOLD = 10;

export interface FoundTemplate {
  readonly template: TemplateRecord;
  readonly build: BuildRecord;
  /** Facts of the image that is its lowest layer, where one is. */
  readonly image: UnpackedImage | undefined;
}

/** @throws SandboxError invalid_argument, not_found */
export async function findTemplate(
  { home }: Pick<Config, "home">,
  store: Store,
  name: string,
): Promise<FoundTemplate> {
  const parsed = requireReference(name);
  const template = lookUp({ store, team: DEFAULT_TEAM }, parsed);
  if (template === undefined) throw noTemplate(name);
  const { tag = DEFAULT_TAG } = parsed;
  const build = store.builds.tagged(template.templateId, tag);
  if (build === undefined) throw noTag(tag, name, store.builds.tags(template.templateId));
  const [lowest] = toLayers(join(home, LAYERS), build);
  const image = lowest === undefined ? undefined : await readFacts(dirname(lowest.root));
  return { template, build, image };
}

function noTemplate(name: string): SandboxError {
  const hint = "sandbox-mcp template list shows all";
  return new SandboxError("not_found", templateMissing(name), { hint });
}

/** `tags` are those of the template: without the tag `default`, `template show NAME` fails too. */
function noTag(tag: string, name: string, tags: readonly BuildTag[]): SandboxError {
  const hint = tags.length === 0 ? "it has no tags" : `it has the tags ${listTags(tags)}`;
  return new SandboxError("not_found", tagMissing(tag, name), { hint });
}

function listTags(tags: readonly BuildTag[]): string {
  const shown = tags.slice(0, MAX_TAGS_TOLD).map(({ tag }) => tag);
  const more = tags.length > shown.length ? ` and ${tags.length - shown.length} more` : "";
  return `${shown.join(", ")}${more}`;
}

/** A fact on a line; what an image says of itself is quoted where it is not plain. */
export async function showTemplate(config: Config, name: string): Promise<number> {
  using store = openStore({ path: join(config.home, "state.db") });
  const { template, build, image } = await findTemplate(config, store, name);
  const tags = store.builds.tags(template.templateId).map(({ tag }) => tag);
  const { setup } = build;
  // Those of the service that registered it: a service may have other settings than this command.
  const { cpus, memoryMb } = limitsOf(build.limits, build);
  const lines: (readonly [string, string | number])[] = [
    ["name", template.name ?? template.templateId],
    ["id", template.templateId],
    ["kind", template.kind],
    ["tags", tags.join(" ")],
    ["created", new Date(build.createdAtMs).toISOString()],
    ["size", `${cpus} CPU, ${memoryMb} MB`],
    ["layers", build.layers.length],
    ["user", quoteName(build.defaultUser)],
    ["work directory", quoteName(build.defaultWorkdir)],
    ...Object.entries(setup?.environment ?? {}).map(
      ([key, value]) => ["environment", quoteName(`${key}=${value}`)] as const,
    ),
    ...(setup?.startCommand ? [["start command", quoteName(setup.startCommand)] as const] : []),
    ...(setup?.readyCommand ? [["ready command", quoteName(setup.readyCommand)] as const] : []),
    ...(image === undefined ? [] : imageLines(image)),
  ];
  process.stdout.write(lines.map(([key, value]) => `${key}: ${value}\n`).join(""));
  return EXIT_OK;
}

function quoteAll(words: readonly string[]): string {
  return words.map((word) => quoteName(word)).join(" ");
}

function imageLines({ digest, bytes, entries, config, standIns }: UnpackedImage) {
  const lines: (readonly [string, string | number])[] = [
    ["image", digest],
    ["bytes", bytes],
    ["entries", entries],
    ["given", standIns.join(" ")],
    ["entry point", quoteAll(config.entrypoint)],
    ["command", quoteAll(config.cmd)],
    ["ports", config.exposedPorts.join(" ")],
    ...config.labels.map(({ name, value }) => ["label", quoteName(`${name}=${value}`)] as const),
  ];
  return lines.filter(([, value]) => value !== "");
}

/** @throws SandboxError unavailable while it has sandboxes, invalid_argument for one of several versions */
export async function removeTemplate(
  { home }: Pick<Config, "home">,
  name: string,
): Promise<number> {
  using store = openStore({ path: join(home, "state.db") });
  const reference = requireReference(name);
  const template = lookUp({ store, team: DEFAULT_TEAM }, reference);
  if (template === undefined) throw noTemplate(name);
  requireWhole(store, template, { name, tag: reference.tag });
  if (template.kind === "built-in") {
    throw new SandboxError(
      "permission_denied",
      `${name} is a built-in template and cannot be removed`,
    );
  }
  const { templateId } = template;
  const rows = store.sandboxes.owners().flatMap((owner) => store.sandboxes.ofOwner(owner));
  const inUse = rows.filter((row) => row.templateId === templateId);
  const count = inUse.length;
  if (count > 0) {
    // No client knows those that a service keeps started for its next create.
    const isPooled = inUse.every(({ state }) => state === "pooled");
    // A refused request on the wire; of a command it is no fault of its usage.
    const sandboxes = count === 1 ? "a sandbox" : `${count} sandboxes`;
    throw new SandboxError("unavailable", `template ${quoteName(name)} has ${sandboxes}`, {
      hint: isPooled
        ? "a service keeps it started: stop the service, or remove the template through its API"
        : "kill what was made from it first, also what is paused",
    });
  }
  await removeLayers(join(home, LAYERS), eraseTemplate(store, templateId));
  await pruneImages({ home, store, onFailure: printFailure });
  process.stdout.write(`removed ${template.name ?? template.templateId}\n`);
  return EXIT_OK;
}

/** Builds of other tags would go with that of the one that was named. */
function requireWhole(
  store: Store,
  template: TemplateRecord,
  { name, tag }: { readonly name: string; readonly tag: string | undefined },
): void {
  if (tag === undefined) return;
  const all = store.builds.tags(template.templateId);
  const named = all.find((each) => each.tag === tag);
  if (named === undefined) throw noTag(tag, name, all);
  const others = all.filter(({ buildId }) => buildId !== named.buildId);
  if (others.length === 0) return;
  const message = `the template of ${quoteName(name)} has other builds: ${listTags(others)}`;
  throw new SandboxError("invalid_argument", message, {
    hint: "name the template without a tag to remove all of its tags",
  });
}
