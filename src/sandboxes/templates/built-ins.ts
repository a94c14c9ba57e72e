/** Templates that are there without a request: where they come from, how they are recorded. */

import { relative } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../common/clock.ts";
import type { Logger } from "../../common/log.ts";
import type { ContainerLimits, Layer } from "../../engine/engine.ts";
import {
  DEFAULT_TEAM,
  type BuildRecord,
  type Store,
  type TemplateRecord,
  type TemplateSetup,
} from "../../store/store.ts";
import type { CleanupRetries } from "../retry-cleanup.ts";
import { newReadyBuild, newTemplate } from "./new-template.ts";

/** The tag of a reference that names none. */
export const DEFAULT_TAG = "default";

/** A template that is there without having been made by a request. */
export interface BuiltInTemplate {
  readonly name: string;
  /** Other names that mean it where a template of that name is not there. */
  readonly aliases?: readonly string[];
  readonly defaultUser: string;
  readonly defaultWorkdir: string;
  /** Start and ready commands, environment and limits of its sandboxes. */
  readonly setup?: TemplateSetup | undefined;
  /** Its layers as they are on disk now; undefined when it was not built. */
  find(): Promise<readonly Layer[] | undefined>;
  /**
   * Makes it at its first use, or waits for who makes it, at most this long; undefined where it
   * cannot be made.
   * @throws SandboxError unavailable when it takes longer or fails
   */
  prepare?(signal: AbortSignal, waitMs?: number): Promise<readonly Layer[] | undefined>;
}

export interface TemplatesOptions extends CleanupRetries {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly owner: string;
  /** On whose behalf references are read. */
  readonly team: string;
  readonly home: string;
  readonly layersDirectory: string;
  readonly limits: ContainerLimits;
  readonly builtIns: readonly BuiltInTemplate[];
  /** Built-in to use where another one was not built: `{ base: "host" }`. */
  readonly fallbacks: Readonly<Record<string, string>>;
  /** Built-ins that another service of this home may offer, but neither they nor their snapshots here. */
  readonly withheld: readonly string[];
  /** Ends those that run or wait. */
  cancelBuilds(templateId: string): void;
  readonly pool: {
    /** Does the work while no sandbox of the template waits for a create. */
    without<T>(templateId: string, work: () => T): Promise<T>;
  };
}

export type StoredLayer = BuildRecord["layers"][number];

/** Makes sure that the records of a built-in name the layers that are on disk. */
export function registerBuiltIn(
  options: Pick<TemplatesOptions, "store" | "clock" | "owner" | "limits" | "layersDirectory">,
  builtIn: BuiltInTemplate,
  found: readonly Layer[],
): void {
  const { store, clock, owner, limits, layersDirectory } = options;
  const layers = found.map((layer) => toStoredLayer(layersDirectory, layer));
  if (isRegistered(store, builtIn, layers)) return;
  store.transaction(() => {
    // Another process may have registered it meanwhile.
    if (isRegistered(store, builtIn, layers)) return;
    const nowMs = clock.now();
    const template: TemplateRecord = store.templates.getByName(builtIn.name) ?? {
      ...newTemplate(DEFAULT_TEAM, builtIn.name, nowMs),
      kind: "built-in",
      isPublic: true,
    };
    const { templateId } = template;
    store.templates.put({ ...template, updatedAtMs: nowMs });
    const { defaultUser, defaultWorkdir, setup } = builtIn;
    const facts = { templateId, owner, limits, layers, defaultUser, defaultWorkdir };
    const build = newReadyBuild({ ...facts, ...(setup !== undefined && { setup }) }, nowMs);
    store.builds.put(build);
    const { buildId } = build;
    store.builds.tag({ templateId, tag: DEFAULT_TAG, buildId, createdAtMs: nowMs });
  });
}

function isRegistered(
  store: Store,
  { name, setup }: BuiltInTemplate,
  layers: readonly StoredLayer[],
): boolean {
  const template = store.templates.getByName(name);
  const build = template && store.builds.tagged(template.templateId, DEFAULT_TAG);
  if (build === undefined || !isDeepStrictEqual(build.setup, setup)) return false;
  return JSON.stringify(build.layers) === JSON.stringify(layers);
}

/** Paths inside the folder of layers become relative, so that a home can be moved. */
export function toStoredLayer(layersDirectory: string, { root, usr }: Layer): StoredLayer {
  const shorten = (path: string) => {
    const inside = relative(layersDirectory, path);
    return inside.startsWith("..") || inside === "" ? path : inside;
  };
  return { root: shorten(root), ...(usr !== undefined && { usr: shorten(usr) }) };
}
