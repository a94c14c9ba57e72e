/**
 * Tells of layers whose modes were changed after they were made, as by `chmod -R` on a home or a copy of it
 * without modes. Which they were is not known, so those of templates and snapshots cannot be set again.
 */

import { join } from "node:path";
import { listFolder } from "../../common/files.ts";
import { isOpenTree, keepsModes } from "../../common/tree-modes.ts";
import { TREES } from "../../engine/storage/layers.ts";
import type { Store } from "../../store/store.ts";
import type { Folders, Services } from "../context.ts";
import { layerFolders, readBuilds } from "./layer-folders.ts";

/** Their packages are known. */
const BUILT = /^(?:base|interpreter)-/;
const DRAFT_ENDING = ".part";
/** A log line must not grow with the home. */
const MAX_NAMES = 10;

type Home = Pick<Services, "store" | "log"> & Pick<Folders, "layersDirectory">;

/** Logs which templates and snapshots have such layers, if any have; never rejects. */
export async function tellChangedLayers(context: Home): Promise<void> {
  try {
    await tell(context);
  } catch (error) {
    context.log.error({ op: "layers", err: error }, "modes of layers were not checked");
  }
}

async function tell({ store, log, layersDirectory }: Home): Promise<void> {
  const changed = await findChanged(layersDirectory);
  if (changed.size === 0) return;
  const names = await namesOn(store, changed);
  if (names.length === 0) return;
  log.warn(
    { op: "layers", count: names.length, templates: names.slice(0, MAX_NAMES) },
    "modes of files in the home were changed: in sandboxes of these templates and snapshots programs " +
      "or sudo fail; restore layers from a backup with modes and owners, or make them anew",
  );
}

async function findChanged(layersDirectory: string): Promise<Set<string>> {
  const changed = new Set<string>();
  for (const name of await listFolder(layersDirectory)) {
    if (name.endsWith(DRAFT_ENDING)) continue;
    const tree = join(layersDirectory, name, TREES.root);
    const isAsMade = BUILT.test(name) ? await keepsModes(tree) : await isOpenTree(tree);
    if (!isAsMade) changed.add(name);
  }
  return changed;
}

/** A built-in is built anew by itself. */
async function namesOn(store: Store, changed: ReadonlySet<string>): Promise<string[]> {
  const names = new Set<string>();
  for (const build of await readBuilds(store)) {
    if (!layerFolders(build).some((folder) => changed.has(folder))) continue;
    const template = store.templates.get(build.templateId);
    if (template === undefined || template.kind === "built-in") continue;
    names.add(template.name ?? template.templateId);
  }
  return [...names].toSorted();
}
