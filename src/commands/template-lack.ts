/** Whether a home has no template for clients to name, and can have none built. */

import { findBuildLack, type BuildLack } from "../engine/templates/base.ts";
import { hasImage } from "../sandboxes/layer-folders.ts";
import { findBase, listLayers } from "./base-layers.ts";

/** What the machine lacks to build `base`; undefined also where the home has that, or templates of images. */
export async function findTemplateLack(
  home: string,
  lack: BuildLack | undefined = findBuildLack(),
): Promise<BuildLack | undefined> {
  if (lack === undefined || (await findBase(home)) !== undefined) return undefined;
  return hasImage(await listLayers(home)) ? undefined : lack;
}
