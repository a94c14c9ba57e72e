/** The layers of the template `base` in a home, each build beside the older ones. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { causeCode } from "../common/errors.ts";
import type { Layer } from "../engine/engine.ts";

/** When it was built, and from which list of packages. */
const NAME_PATTERN = /^base-[0-9]{13}-([0-9a-f]{8})$/;

/** The newest base template of the home; undefined when it was not built. */
export async function findBase(home: string): Promise<readonly Layer[] | undefined> {
  const newest = (await listBases(home)).at(-1);
  return newest === undefined ? undefined : [{ root: join(home, "layers", newest, "root") }];
}

/** Names of the builds, oldest first. */
export async function listBases(home: string): Promise<string[]> {
  return (await listLayers(home)).filter((name) => NAME_PATTERN.test(name)).toSorted();
}

/** Names of all layers of the home. */
export async function listLayers(home: string): Promise<string[]> {
  try {
    return await readdir(join(home, "layers"));
  } catch (error) {
    if (causeCode(error) === "ENOENT") return [];
    throw error;
  }
}
