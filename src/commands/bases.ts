/** The layers of the template `base` in a home, each build beside the older ones. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { causeCode } from "../common/errors.ts";
import { hasParts } from "../common/files.ts";
import type { Layer } from "../engine/engine.ts";

/** When it was built, and from which list of packages. */
const NAME_PATTERN = /^base-[0-9]{13}-([0-9a-f]{8})$/;

/** Without one of these it was not finished, or somebody has removed a part of it. */
const PARTS = ["root/etc/passwd", "root/usr/bin", "root/usr/lib"] as const;

/** The newest base template of the home; undefined when it was not built. */
export async function findBase(home: string): Promise<readonly Layer[] | undefined> {
  const newest = await findNewestBase(home);
  return newest === undefined ? undefined : [{ root: join(home, "layers", newest, "root") }];
}

/** The name of the newest build that is complete. */
export async function findNewestBase(home: string): Promise<string | undefined> {
  const names = (await listLayers(home)).filter((name) => NAME_PATTERN.test(name)).toSorted();
  for (const name of names.toReversed()) {
    if (await hasParts(join(home, "layers", name), PARTS)) return name;
  }
  return undefined;
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
