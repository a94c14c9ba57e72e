/** The layers of the home, and which of them are the templates that are built here. */

import { join } from "node:path";
import { hasParts, listFolder } from "../../common/files.ts";
import { keepsModes } from "../../common/tree-modes.ts";
import type { Layer } from "../../engine/engine.ts";

/** The templates whose builds lie in a home, each with its moment and recipe in its name. */
export type BuiltKind = "base" | "interpreter";

/** Without one of these the build was not finished, or a part of it was removed. */
export const BASE_PARTS = ["root/etc/passwd", "root/usr/bin", "root/usr/lib"] as const;

/** The newest base template of the home; undefined when it was not built. */
export async function findBase(home: string): Promise<readonly Layer[] | undefined> {
  return findBuilt(home, "base");
}

/** The layers of the newest build; undefined without one. */
export async function findBuilt(
  home: string,
  kind: BuiltKind,
): Promise<readonly Layer[] | undefined> {
  const newest = await findNewest(home, kind);
  return newest === undefined ? undefined : [{ root: join(home, "layers", newest, "root") }];
}

/** The name of the newest build that is complete, and as it was made. */
export async function findNewest(home: string, kind: BuiltKind): Promise<string | undefined> {
  for await (const name of completeBuilds(home, kind)) {
    if (await keepsModes(join(home, "layers", name, "root"))) return name;
  }
  return undefined;
}

/** Whether there are builds, but all have lost modes of their files. */
export async function hasLostModes(home: string, kind: BuiltKind): Promise<boolean> {
  if ((await findNewest(home, kind)) !== undefined) return false;
  const { done } = await completeBuilds(home, kind).next();
  return done !== true;
}

/** The newest first. */
async function* completeBuilds(home: string, kind: BuiltKind): AsyncGenerator<string> {
  const pattern = new RegExp(`^${kind}-[0-9]{13}-[0-9a-f]{8}$`);
  const names = (await listLayers(home)).filter((name) => pattern.test(name)).toSorted();
  for (const name of names.toReversed()) {
    if (await hasParts(join(home, "layers", name), BASE_PARTS)) yield name;
  }
}

/**
 * The moment in the name of a layer that is built now: the newest one counts, so it is later than that of
 * the newest so far, also when the clock was set back since.
 */
export function newLayerMoment(newest: string | undefined): number {
  const lastMs = Number(/^[a-z]+-([0-9]{13})-/.exec(newest ?? "")?.[1] ?? 0);
  return Math.max(Date.now(), lastMs + 1);
}

/** When the newest build under way began, in Unix milliseconds; undefined where there is none. */
export async function findBuildStart(home: string, kind: BuiltKind): Promise<number | undefined> {
  const pattern = new RegExp(String.raw`^${kind}-([0-9]{13})-[0-9a-f]{8}\b.*\.part$`);
  const starts = (await listLayers(home)).flatMap((name) => {
    const startedAt = pattern.exec(name)?.[1];
    return startedAt === undefined ? [] : [Number(startedAt)];
  });
  return starts.length === 0 ? undefined : Math.max(...starts);
}

export async function listLayers(home: string): Promise<string[]> {
  return listFolder(join(home, "layers"));
}
