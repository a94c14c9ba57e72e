/** From a sandbox's writable layer to a build: its files are durable before the build is ready. */

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { removeTree } from "../common/remove-tree.ts";
import { step } from "../common/steps.ts";
import type { Layer } from "../engine/engine.ts";
import type { BuildRecord, Store } from "../store/store.ts";
import { requireDiskSpace, toDiskFault } from "./disk-space.ts";
import type { Domain, Member } from "./domain.ts";
import { countBuiltIn, layerFolders, toLayers } from "./layer-folders.ts";
import { cleanUpOrRetry } from "./retry-cleanup.ts";

/**
 * Each snapshot of a snapshot adds a layer, which makes every look for a name that is not there
 * longer; a mount takes 128. One that would be longer than this becomes one layer upon the template.
 */
const MAX_LAYERS = 24;

/**
 * Writes a build of what the sandbox holds now. `commit` gets it ready, makes it known and returns
 * what the caller wants; after a fault nothing of it is left.
 * @throws SandboxError resource_exhausted without room.
 */
export async function writeBuild<T>(
  domain: Domain,
  member: Member,
  plan: { readonly templateId: string; commit(build: BuildRecord): T },
): Promise<T> {
  const { store, clock } = domain;
  await requireDiskSpace(domain.layersDirectory);
  const parent = store.builds.get(member.record.buildId);
  if (parent === undefined) {
    throw new SandboxError("internal", `build ${member.record.buildId} is gone`);
  }
  const startedAtMs = clock.now();
  const buildId = randomUUID();
  const intent: BuildRecord = {
    ...parent,
    buildId,
    templateId: plan.templateId,
    owner: domain.owner,
    status: "building",
    sourceSandboxId: member.record.sandboxId,
    createdAtMs: startedAtMs,
    updatedAtMs: startedAtMs,
    finishedAtMs: null,
    limits: member.record.limits,
  };
  store.builds.put(intent);
  const directory = join(domain.layersDirectory, buildId);
  try {
    await step("snapshot.intent");
    const layers = await writeLayers(domain, member, { parent, directory });
    const nowMs = clock.now();
    const build = { ...intent, layers, updatedAtMs: nowMs, finishedAtMs: nowMs };
    return plan.commit({ ...build, status: "ready" });
  } catch (error) {
    const fault = await toDiskFault(error, domain.layersDirectory);
    await cleanUpOrRetry(domain, `layer ${buildId}`, async () => {
      for (const path of [directory, topOf(directory)]) {
        await removeTree(path);
      }
      store.builds.remove(buildId);
    });
    throw toSandboxError(fault, "snapshot");
  }
}

/** Where the newest layer lies until it has become one with those below it. */
function topOf(directory: string): string {
  return `${directory}.top`;
}

/** The layers of the parent and a new one in `directory`, or that one alone upon the template. */
async function writeLayers(
  domain: Domain,
  { container }: Member,
  plan: { readonly parent: BuildRecord; readonly directory: string },
): Promise<BuildRecord["layers"]> {
  const { parent, directory } = plan;
  const toStored = (layer: Layer) => domain.templates.toStored(layer);
  if (parent.layers.length < MAX_LAYERS) {
    return [...parent.layers, toStored(await container.snapshot(directory))];
  }
  const top = await container.snapshot(topOf(directory));
  await step("squash.begun");
  const kept = countBuiltIn(parent);
  const layers = [...toLayers(domain.layersDirectory, parent), top];
  const squashed = await domain.engine.squash(layers, kept, directory);
  await removeTree(topOf(directory));
  await step("squash.done");
  return [...parent.layers.slice(0, kept), toStored(squashed)];
}

/** Of the folders of these builds, which are no rows any more, those that no other build names. */
export function unnamedFolders(store: Store, removed: readonly BuildRecord[]): string[] {
  const kept = new Set(store.builds.all().flatMap(layerFolders));
  return removed.flatMap(layerFolders).filter((folder) => !kept.has(folder));
}

/** Removes folders of layers. */
export async function removeLayers(
  layersDirectory: string,
  folders: readonly string[],
): Promise<void> {
  for (const folder of folders) {
    await removeTree(join(layersDirectory, folder));
  }
}
