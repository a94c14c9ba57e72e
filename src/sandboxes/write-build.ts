/** From a sandbox's writable layer to a build: its files are durable before the build is ready. */

import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { BuildRecord, Store } from "../store/store.ts";
import { requireDiskSpace, toDiskFault } from "./disk-space.ts";
import type { Domain, Member } from "./domain.ts";
import { nowOrLater } from "./later.ts";
import { layerFolders } from "./layer-folders.ts";

/** Each snapshot of a snapshot adds a layer, and a mount takes only so many. */
const MAX_LAYERS = 24;

/**
 * Writes a build of what the sandbox holds now. `commit` gets it ready, makes it known and returns
 * what the caller wants; after a fault nothing of it is left.
 * @throws SandboxError failed_precondition for too long a chain, resource_exhausted without room.
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
  if (parent.layers.length >= MAX_LAYERS) {
    throw new SandboxError("failed_precondition", `snapshot chain exceeds ${MAX_LAYERS} layers`, {
      hint: "start from a template nearer to the base",
    });
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
    const layer = await member.container.snapshot(directory);
    const layers = [...parent.layers, domain.templates.toStored(layer)];
    const nowMs = clock.now();
    const build = { ...intent, layers, updatedAtMs: nowMs, finishedAtMs: nowMs };
    return plan.commit({ ...build, status: "ready" });
  } catch (error) {
    const fault = await toDiskFault(error, domain.layersDirectory);
    await nowOrLater(domain, `layer ${buildId}`, async () => {
      await rm(directory, { recursive: true, force: true });
      store.builds.remove(buildId);
    });
    throw toSandboxError(fault, "snapshot");
  }
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
    await rm(join(layersDirectory, folder), { recursive: true, force: true });
  }
}
