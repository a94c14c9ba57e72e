/** Templates that are an image: their records, and the layers of images that no template names. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { ContainerLimits } from "../../engine/engine.ts";
import { discardFolder } from "../../engine/host/drafts.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { whileNoImageIsUsed } from "../../images/image-locks.ts";
import type { ImageLayer } from "../../images/images.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { findUnusedImages } from "../builds/layer-folders.ts";
import { toStoredLayer } from "./built-ins.ts";
import { newReadyBuild, newTemplate } from "./new-template.ts";
import { readSetupLabel } from "./setup-label.ts";

export interface RegisterOptions {
  readonly store: Store;
  readonly home: string;
  readonly team: string;
  /** Of the service; they matter where the template sets none. */
  readonly limits: ContainerLimits;
  readonly alias: string;
  readonly tags: readonly string[];
}

/**
 * Makes a template of an image, or another build of a template that is one; the tags move to it.
 * Called while clean-ups of images are kept off.
 * @throws SandboxError already_exists when a snapshot or a built-in has the name, failed_precondition
 * for a label of an export that is not valid
 */
export function registerImage(options: RegisterOptions, image: ImageLayer): BuildRecord {
  const { store, team, alias, tags, limits } = options;
  const { workdir = image.defaultWorkdir, ...setup } = readSetupLabel(image.config.labels);
  return store.transaction(() => {
    const name = `${team}/${alias}`;
    const known = store.templates.getByName(name);
    const builtIn = store.templates.getByName(alias);
    if ((known ?? builtIn)?.kind === "snapshot" || builtIn?.kind === "built-in") {
      throw new SandboxError("already_exists", `the name ${alias} is taken`, {
        hint: "choose another one with --name",
      });
    }
    const nowMs = Date.now();
    const template = known ?? newTemplate(team, name, nowMs);
    const { templateId } = template;
    const facts = {
      templateId,
      owner: "image",
      limits,
      layers: [toStoredLayer(join(options.home, LAYERS), image.layer)],
      defaultUser: image.defaultUser,
      // The label has only the one that an image cannot have.
      defaultWorkdir: workdir,
      setup: {
        environment: Object.fromEntries(
          image.config.env.map(({ name: key, value }) => [key, value]),
        ),
        ...setup,
      },
    };
    const build = newReadyBuild(facts, nowMs);
    store.templates.put({ ...template, updatedAtMs: nowMs });
    store.builds.put(build);
    for (const tag of tags) {
      store.builds.tag({ templateId, tag, buildId: build.buildId, createdAtMs: nowMs });
    }
    return build;
  });
}

/**
 * Removes the layers of images that no build names, unless an image is being added now. Returns the
 * names of their directories.
 */
export async function pruneImages(options: {
  readonly home: string;
  readonly store: Store;
  readonly onFailure: TellFailure;
}): Promise<string[]> {
  const { home, store, onFailure } = options;
  const folder = join(home, LAYERS);
  const find = async () => findUnusedImages(await readdir(folder).catch(() => []), store);
  if ((await find()).length === 0) return [];
  const remove = async (name: string) => discardFolder(join(folder, name));
  const removed = await whileNoImageIsUsed(home, async () => {
    // Another process may have named one before the lock was free.
    const names = await find();
    return cleanUp({ kind: "layer", names, remove }, onFailure);
  });
  return removed ?? [];
}

/** The same in a service, whose log has what cannot be removed; a later one removes that. */
export async function pruneImagesInService(context: {
  readonly home: string;
  readonly store: Store;
  readonly log: Logger;
}): Promise<void> {
  const { log } = context;
  const onFailure: TellFailure = ({ kind, name, error }) =>
    log.warn({ op: "cleanup", kind, name, err: error }, "cleanup failed");
  await pruneImages({ ...context, onFailure });
}
