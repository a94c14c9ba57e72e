/** The templates that are always there, and where their layers lie in a home. */

import { access, stat } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import { removeTree } from "../common/remove-tree.ts";
import { BASE_RECIPE, buildBase } from "../engine/template-base.ts";
import { buildHost, hostLayers } from "../engine/template-host.ts";
import type { BuiltInTemplate } from "../sandboxes/built-ins.ts";
import type { Store } from "../store/store.ts";
import { findBase, listBases, listLayers } from "./bases.ts";

const DEFAULTS = { defaultUser: "user", defaultWorkdir: "/home/user" } as const;
/** What changes when the packages of this machine do. */
const HOST_STATE = "/usr/lib";

/** With a moment in their names, the oldest form of `base` without its list of packages. */
const BUILT_IN_PATTERN = /^(?:base-[0-9]{13}(?:-[0-9a-f]{8})?|host-[0-9]{13})$/;

export interface BaseBuild {
  readonly home: string;
  readonly signal: AbortSignal;
  onProgress(message: string): void;
}

/** `base` and `host`, the latter made at its first use. */
export function builtInTemplates(home: string): readonly BuiltInTemplate[] {
  return [
    { name: "base", ...DEFAULTS, find: () => findBase(home) },
    {
      name: "host",
      ...DEFAULTS,
      async find() {
        const directory = await hostDirectory(home);
        return (await isThere(directory)) ? hostLayers(directory) : undefined;
      },
      prepare: async () => buildHost({ directory: await hostDirectory(home) }),
    },
  ];
}

/** A change of this machine's packages asks for a new skeleton; older ones stay for snapshots. */
async function hostDirectory(home: string): Promise<string> {
  const packages = "/var/lib/dpkg/status";
  const { mtimeMs } = await stat((await isThere(packages)) ? packages : HOST_STATE);
  return join(home, "layers", `host-${Math.floor(mtimeMs)}`);
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Whether the newest base template was built from today's list of packages. */
export async function isBaseCurrent(home: string): Promise<boolean> {
  const newest = (await listBases(home)).at(-1) ?? "";
  return newest.endsWith(`-${BASE_RECIPE}`);
}

/** Builds a new base template beside what is there; services use it from their next start on. */
export async function buildNewBase(build: BaseBuild): Promise<void> {
  const directory = join(build.home, "layers", `base-${Date.now()}-${BASE_RECIPE}`);
  await buildBase({ ...build, directory });
}

/**
 * Removes older layers of built-in templates that nothing stands on: no snapshot and no sandbox of
 * any instance. Returns the names of the removed folders.
 */
export async function pruneBuiltIns(
  home: string,
  store: Store,
  tell: TellFailure,
): Promise<string[]> {
  const names = (await listLayers(home)).toSorted();
  const older = ["base-", "host-"].flatMap((prefix) =>
    names.filter((name) => name.startsWith(prefix) && BUILT_IN_PATTERN.test(name)).slice(0, -1),
  );
  const inUse = store.builds
    .all()
    .filter(({ layers, buildId }) => layers.length > 1 || store.sandboxes.countOfBuild(buildId) > 0)
    .flatMap(({ layers }) => layers.flatMap(({ root, usr = root }) => [root, usr]));
  const unused = older.filter((name) => !inUse.some((path) => path.startsWith(`${name}/`)));
  const remove = async (name: string) => removeTree(join(home, "layers", name));
  return cleanUp({ kind: "layer", names: unused, remove }, tell);
}
