/** A template that is built on this machine: where its builds lie in a home, and how the next is made. */

import { join } from "node:path";
import type { Layer } from "../../engine/engine.ts";
import { createOnce, removeDrafts } from "../../engine/host/drafts.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { BASE_BUILD_TIMEOUT_MS, type buildBase } from "../../engine/templates/base.ts";
import {
  findBuildStart,
  findBuilt,
  findNewest,
  hasLostModes,
  newLayerMoment,
  type BuiltKind,
} from "./base-layers.ts";
import { recordBuildTime } from "./build-times.ts";
import { withDiskSpace } from "./with-disk-space.ts";

export interface BuildTask {
  readonly home: string;
  readonly signal: AbortSignal;
  /** Whether a build that is there and up to date will do, however old it is. */
  readonly ifMissing: boolean;
  onProgress(message: string): void;
}

export interface BuildTarget {
  readonly name: string;
  /** How long a build takes on this machine, if that is known. */
  expectMs(home: string): Promise<number | undefined>;
  /**
   * Builds it beside what is there, unless another process does so meanwhile; services use it from
   * their next start on. Says whether there is one now that was not there before.
   */
  build(task: BuildTask): Promise<boolean>;
  find(home: string): Promise<readonly Layer[] | undefined>;
  /** Whether the home has one of the present recipe. */
  isCurrent(home: string): Promise<boolean>;
  /** Whether what is there cannot be used, because modes in the home were changed. */
  hasLostModes(home: string): Promise<boolean>;
  /** When a build under way began. */
  findStart(home: string): Promise<number | undefined>;
}

export interface BuildTargetOptions extends Pick<BuildTarget, "name" | "expectMs"> {
  readonly kind: BuiltKind;
  readonly recipe: string;
  readonly make: typeof buildBase;
}

export function createBuildTarget(options: BuildTargetOptions): BuildTarget {
  const { name, kind, recipe, make, expectMs } = options;
  const once = createOnce<string>();
  const isOfRecipe = (layer: string | undefined) => layer?.endsWith(`-${recipe}`) ?? false;
  return {
    name,
    expectMs,
    async build(task) {
      const { home, ifMissing } = task;
      const before = await findNewest(home, kind);
      const find = async (): Promise<string | undefined> => {
        const newest = await findNewest(home, kind);
        return isOfRecipe(newest) && (ifMissing || newest !== before) ? newest : undefined;
      };
      const makeNext = async (signal: AbortSignal): Promise<string> => {
        // With the lock held, the process that began one of these is dead.
        await removeDrafts(join(home, LAYERS), `${kind}-`);
        const layer = `${kind}-${newLayerMoment(await findNewest(home, kind))}-${recipe}`;
        task.onProgress(`building ${name} from this system's package mirror`);
        const directory = join(home, LAYERS, layer);
        await withDiskSpace({ home, signal }, (stop) =>
          recordBuildTime(home, name, () => make({ ...task, signal: stop, directory })),
        );
        return layer;
      };
      const limits = { lock: kind, timeoutMs: BASE_BUILD_TIMEOUT_MS } as const;
      return (await once(home, { home, ...limits, find, make: makeNext }, task.signal)) !== before;
    },
    find: (home) => findBuilt(home, kind),
    isCurrent: async (home) => isOfRecipe(await findNewest(home, kind)),
    hasLostModes: (home) => hasLostModes(home, kind),
    findStart: (home) => findBuildStart(home, kind),
  };
}
