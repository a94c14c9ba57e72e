/** The templates that are always there, and where their layers lie in a home. */

import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { ifThere } from "../../common/files.ts";
import type { Layer } from "../../engine/engine.ts";
import { createOnce, discardFolder, removeDrafts } from "../../engine/host/drafts.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { BASE_RECIPE, buildBase } from "../../engine/templates/base.ts";
import { buildHost, findHost, HOST_RECIPE } from "../../engine/templates/host.ts";
import type { BuiltInTemplate } from "../../sandboxes/templates/built-ins.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { findBase, findNewest, listLayers } from "./base-layers.ts";
import { createBuildTarget, type BuildTarget } from "./build-target.ts";
import { readBuildTime } from "./build-times.ts";

/** As in the public service's base. Without it javac, ruby, vim and ls take text for ASCII. */
export const LANGUAGE = { LANG: "C.UTF-8" } as const;

const DEFAULTS = {
  defaultUser: "user",
  defaultWorkdir: "/home/user",
  setup: { environment: LANGUAGE, startCommand: "", readyCommand: "" },
} as const;
/** What changes when the packages of this machine do; the second where there is no first. */
const PACKAGES = "/var/lib/dpkg/status";
const HOST_STATE = "/usr/lib";

/** With a moment in their names, the oldest forms without what they were made by. */
const BUILT_IN_PATTERN = /^(?:base|host|interpreter)-[0-9]{13}(?:-[0-9a-f]{8})?$/;

const hostOnce = createOnce<readonly Layer[]>();
/** What a service builds by itself unless it is told not to. */
export const BASE_BUILD: BuildTarget = createBuildTarget({
  name: "base",
  kind: "base",
  recipe: BASE_RECIPE,
  make: buildBase,
  expectMs: (home) => readBuildTime(home, "base"),
});

/** `base` and `host`, the latter made at its first use. */
export function builtInTemplates(
  home: string,
  perlDirectory: string,
  /** Waits for the build of `base`. */
  waitForBase?: BuiltInTemplate["prepare"],
): readonly BuiltInTemplate[] {
  return [
    {
      name: "base",
      ...DEFAULTS,
      find: () => findBase(home),
      ...(waitForBase && { prepare: waitForBase }),
    },
    {
      name: "host",
      ...DEFAULTS,
      find: async () => findHost(await hostDirectory(home)),
      prepare: async (signal) => prepareHost({ home, perlDirectory }, signal),
    },
  ];
}

/** What is in the way is a skeleton of which something is missing. */
async function prepareHost(
  { home, perlDirectory }: { readonly home: string; readonly perlDirectory: string },
  signal: AbortSignal,
): Promise<readonly Layer[]> {
  const directory = await hostDirectory(home);
  const task = {
    home,
    lock: "host",
    find: async () => findHost(directory),
    async make(stop: AbortSignal) {
      // With the lock held, the process that began one of these is dead.
      await removeDrafts(join(home, LAYERS), "host-");
      await discardFolder(directory);
      return buildHost({ directory, perlDirectory, signal: stop });
    },
  } as const;
  return hostOnce(directory, task, signal);
}

/** A change of this machine's packages asks for a new skeleton; older ones stay for snapshots. */
async function hostDirectory(home: string): Promise<string> {
  const state = (await ifThere(stat(PACKAGES))) ?? (await ifThere(stat(HOST_STATE)));
  const mtimeMs = state?.mtimeMs ?? 0;
  return join(home, LAYERS, `host-${Math.floor(mtimeMs)}-${HOST_RECIPE}`);
}

/**
 * Removes older layers of built-in templates that nothing stands on: no snapshot, no template and no
 * sandbox of any instance. Returns the names of the removed folders.
 */
export async function pruneBuiltIns(
  home: string,
  store: Store,
  tell: TellFailure,
): Promise<string[]> {
  const names = (await listLayers(home)).toSorted();
  const kept = [
    await findNewest(home, "base"),
    await findNewest(home, "interpreter"),
    basename(await hostDirectory(home)),
  ];
  const older = ["base-", "host-", "interpreter-"].flatMap((prefix) => {
    const all = names.filter((name) => name.startsWith(prefix) && BUILT_IN_PATTERN.test(name));
    const used = all.findLast((name) => kept.includes(name)) ?? all.at(-1);
    return all.filter((name) => name !== used);
  });
  // Snapshots that are disks, and templates without steps, have the layers of a built-in alone.
  const isOwn = ({ templateId }: BuildRecord) =>
    store.templates.get(templateId)?.kind === "built-in";
  const inUse = store.builds
    .all()
    .filter((build) => !isOwn(build) || store.sandboxes.countOfBuild(build.buildId) > 0)
    .flatMap(({ layers }) => layers.flatMap(({ root, usr = root }) => [root, usr]));
  const unused = older.filter((name) => !inUse.some((path) => path.startsWith(`${name}/`)));
  const remove = async (name: string) => discardFolder(join(home, LAYERS, name));
  return cleanUp({ kind: "layer", names: unused, remove }, tell);
}
