/** `template pull IMAGE` and `template import FILE`: templates that are an image. */

import { join } from "node:path";
import { printFailure } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import { quoteName, quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { addImage, addLayout } from "../../images/add-image.ts";
import { openArchive, openArchiveFile } from "../../images/archive.ts";
import type { AddImageOptions, ImageLayer } from "../../images/images.ts";
import { parseReference } from "../../images/reference.ts";
import { removeLayers } from "../../sandboxes/builds/layer-folders.ts";
import { forgetOldBuilds } from "../../sandboxes/template-builds/old-builds.ts";
import { pruneImages, registerImage } from "../../sandboxes/templates/image-templates.ts";
import { openStore } from "../../store/sqlite.ts";
import { DEFAULT_TEAM } from "../../store/store.ts";
import { parseTemplateReference } from "../../wire/address.ts";
import { openHome } from "../home/home.ts";
import { EXIT_OK } from "../program/command.ts";
import { findProgramFiles } from "../program/program-files.ts";
import { createPullProgress } from "../program/pull-progress.ts";
import { showCommandOn, type ShownCommand } from "../program/show-progress.ts";
import { requireDerivedName } from "./derived-name.ts";
import { withDiskSpace } from "./with-disk-space.ts";

const DEFAULT_TAG = "default";
const MAX_NAME = 128;

export async function pullImageTemplate(
  config: Config,
  reference: string,
  signal: AbortSignal,
): Promise<number> {
  const name = chooseName(config, nameOf(reference));
  await openHome(config.home, signal);
  const progress = createPullProgress();
  using shown = showCommandOn(process.stdout, `pulling ${quoteUntrusted(reference)}`, progress);
  return await adding(config, signal, (stop) => {
    const options = {
      ...toOptions(config, stop, shown),
      onFetched: progress.fetched.bind(progress),
    };
    return addImage(reference, options, (image) => {
      shown[Symbol.dispose]();
      return register(config, name, image);
    });
  });
}

export async function importTemplate(
  config: Config,
  file: string,
  signal: AbortSignal,
): Promise<number> {
  const name = chooseName(config, nameOfFile(file));
  await using archive = await openArchiveFile(file);
  await openHome(config.home, signal);
  const progress = createPullProgress();
  using shown = showCommandOn(process.stdout, `importing ${quoteUntrusted(file)}`, progress);
  return await adding(config, signal, (stop) => {
    const options = toOptions(config, stop, shown);
    const open = () => openArchive(archive, options);
    return addLayout(open, options, (image) => {
      shown[Symbol.dispose]();
      return register(config, name, image);
    });
  });
}

/** Images that the new one replaced go once no clean-up is kept off any more. */
async function adding(
  { home }: Config,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const code = await withDiskSpace({ home, signal }, work);
  using store = openStore({ path: join(home, "state.db") });
  await pruneImages({ home, store, onFailure: printFailure });
  return code;
}

async function register(config: Config, name: TemplateName, image: ImageLayer): Promise<number> {
  using store = openStore({ path: join(config.home, "state.db") });
  const { home, limits } = config;
  const options = { store, home, limits, team: DEFAULT_TEAM, ...name };
  const { setup, templateId } = registerImage(options, image);
  await removeLayers(join(home, LAYERS), forgetOldBuilds(store, templateId));
  const { standIns, notes, installCommand } = image;
  const lines = [
    ...notes,
    ...(standIns.length === 0 ? [] : [`given, since the image has none: ${standIns.join(", ")}`]),
    // Of an image that was a template; all else that it says of itself starts nothing.
    ...(setup?.startCommand ? [`start command: ${quoteName(setup.startCommand)}`] : []),
    ...(installCommand === undefined ? [] : [`inside, with a network: ${installCommand}`]),
    `template ${name.alias}:${name.tags.at(-1)} is ${image.pinned}`,
  ];
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
  return EXIT_OK;
}

interface TemplateName {
  readonly alias: string;
  readonly tags: readonly string[];
}

function chooseName({ templateName }: Config, fallback: string): TemplateName {
  const parsed = parseTemplateReference(templateName ?? requireDerivedName(fallback));
  if (parsed !== undefined) {
    const { alias, tag = DEFAULT_TAG } = parsed;
    // The name of an image is found without its tag, too; a name that was chosen is taken as it is.
    return { alias, tags: templateName === undefined ? [DEFAULT_TAG, tag] : [tag] };
  }
  throw new SandboxError("invalid_argument", `no name for ${quoteName(fallback)}`, {
    hint: "give one with --name",
  });
}

/** The last word of the image's own name, and its tag unless that says nothing. */
function nameOf(reference: string): string {
  const parsed = parseReference(reference);
  if (parsed.kind !== "registry") return nameOfFile(parsed.path.replace(/:[^/:]*$/, ""));
  const alias = toAlias(parsed.repository.split("/").at(-1) ?? "");
  const isPlain = parsed.tag === "latest" || parsed.digest !== undefined;
  return isPlain ? alias : `${alias}:${parsed.tag}`;
}

function nameOfFile(path: string): string {
  const file = path.split("/").findLast((part) => part !== "") ?? "";
  return toAlias(file.replace(/\.(?:tar|oci)$/i, ""));
}

function toAlias(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, "-")
    .slice(0, MAX_NAME);
}

function toOptions(config: Config, signal: AbortSignal, shown: ShownCommand): AddImageOptions {
  return {
    home: config.home,
    authFiles: config.registryLogins,
    mirrors: config.registryMirrors,
    allowsFiles: true,
    perlDirectory: findProgramFiles().perlDirectory,
    signal,
    onProgress: shown.line.bind(shown),
  };
}
