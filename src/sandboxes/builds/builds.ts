/** Builds made from a sandbox's writable layer, and those that only forks start from. */

import { randomUUID } from "node:crypto";
import { basename, join } from "node:path";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import type { Layer } from "../../engine/engine.ts";
import { removeImage } from "../../engine/gvisor/remove-image.ts";
import type { BuildRecord, Store } from "../../store/store.ts";
import { findDaemonFault } from "../boot/find-daemon-fault.ts";
import type { SandboxEntry, Services, Tenant, Folders, Registry } from "../context.ts";
import { toCopyFault } from "../disks/disk-space.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import { requireSpace } from "../template-builds/free-space.ts";
import {
  countBuiltIn,
  removeLayers,
  SNAPSHOT_DISKS,
  SNAPSHOT_MEMORY,
  toLayers,
  unnamedFolders,
} from "./layer-folders.ts";
import { isNeededLive } from "./live-builds.ts";
import { DAEMON_SILENT, findMemoryFault, SAVE_FAILED, toMemory } from "./memory.ts";
import { squashLayers } from "./squash-layers.ts";

/**
 * Each snapshot of a snapshot adds a layer, which makes every look for a name that is not there
 * longer; a mount takes 128. One that would be longer than this becomes one layer upon the template.
 */
const MAX_LAYERS = 24;

export interface BuildWork<T> {
  readonly templateId: string;
  /**
   * `disk`: the disk itself, where its blocks can be shared. `layer`: always a layer, which other
   * templates can stand on.
   */
  readonly form: "disk" | "layer";
  /** Whether programs are to go on in what starts from it; undefined for what nothing goes on from. */
  readonly keepsMemory?: boolean;
  /** Gets the build ready, makes it known and returns what the caller wants. */
  commit(build: BuildRecord): T;
}

/**
 * Writes a build of what the sandbox holds now; after a fault nothing of it is left.
 * @throws SandboxError resource_exhausted when the disk is too full.
 */
export async function writeBuild<T>(
  context: Services & Tenant & Folders,
  entry: Pick<SandboxEntry, "container" | "record">,
  work: BuildWork<T>,
): Promise<T> {
  const { store, clock, layersDirectory, disksDirectory } = context;
  await requireSpace(context);
  const parent = store.builds.get(entry.record.buildId);
  if (parent === undefined) {
    throw new SandboxError("internal", `build ${entry.record.buildId} is gone`);
  }
  const startedAtMs = clock.now();
  const buildId = randomUUID();
  // What it has of the parent's disk is on its own; and no build is to find it for the parent's steps.
  const { disk: _disk, memory: _memory, cacheKey: _key, ...inherited } = parent;
  const intent: BuildRecord = {
    ...inherited,
    buildId,
    templateId: work.templateId,
    owner: context.owner,
    status: "building",
    sourceSandboxId: entry.record.sandboxId,
    createdAtMs: startedAtMs,
    updatedAtMs: startedAtMs,
    finishedAtMs: null,
    limits: entry.record.limits,
  };
  store.builds.put(intent);
  const places = {
    directory: join(layersDirectory, buildId),
    diskDirectory: join(disksDirectory, buildId),
    memoryDirectory: join(layersDirectory, SNAPSHOT_MEMORY, buildId),
  };
  try {
    await step("snapshot.intent");
    const written = await writeWithMemory(context, entry, { parent, places, work });
    const nowMs = clock.now();
    const build = { ...intent, ...written, updatedAtMs: nowMs, finishedAtMs: nowMs };
    return work.commit({ ...build, status: "ready" });
  } catch (error) {
    const fault = await toCopyFault(error, layersDirectory);
    await cleanUpOrRetry(context, `layer ${buildId}`, async () => {
      await removeWritten(places);
      store.builds.remove(buildId);
    });
    throw toSandboxError(fault, "snapshot");
  }
}

/** Where parts of a build are written; any may be missing. */
interface Places {
  readonly directory: string;
  readonly diskDirectory: string;
  readonly memoryDirectory: string;
}

async function removeWritten({ directory, diskDirectory, memoryDirectory }: Places): Promise<void> {
  for (const path of [directory, topOf(directory), diskDirectory]) await removeTree(path);
  await removeImage(memoryDirectory);
}

interface WritePlan {
  readonly parent: BuildRecord;
  readonly places: Places;
  readonly work: Pick<BuildWork<unknown>, "form" | "keepsMemory">;
  /** Where memory goes; undefined for files alone. */
  readonly memory?: string | undefined;
}

type Written = Pick<BuildRecord, "memory"> & Partial<Pick<BuildRecord, "disk" | "layers">>;

/** Files with the memory of the same moment; alone where there is none to be had. */
async function writeWithMemory(
  context: Services & Tenant & Folders,
  entry: Pick<SandboxEntry, "container" | "record">,
  plan: WritePlan,
): Promise<Written> {
  const { parent, places, work } = plan;
  if (work.keepsMemory === undefined) return writeFiles(context, entry, plan);
  const fault =
    findMemoryFault(entry, parent, work.keepsMemory) ??
    // What is stopped in the image would be stopped in everything that starts from it.
    ((await findDaemonFault(context, entry)) === undefined ? undefined : DAEMON_SILENT);
  if (fault !== undefined) {
    return { ...(await writeFiles(context, entry, plan)), memory: { fault } };
  }
  const { memoryDirectory } = places;
  try {
    const { memoryBytes } = await entry.container.readUsage();
    const files = await context.copies.during(context.layersDirectory, memoryBytes, () =>
      writeFiles(context, entry, { ...plan, memory: memoryDirectory }),
    );
    return { ...files, memory: toMemory(context, basename(memoryDirectory)) };
  } catch (error) {
    // What fails without memory too is told then.
    const { sandboxId } = entry.record;
    context.log.warn({ op: "sandbox.checkpoint", sandboxId, err: error }, "memory was not saved");
    await removeWritten(places);
    return { ...(await writeFiles(context, entry, plan)), memory: { fault: SAVE_FAILED } };
  }
}

async function writeFiles(
  context: Services & Tenant & Folders,
  entry: Pick<SandboxEntry, "container" | "record">,
  { parent, places, work, memory }: WritePlan,
): Promise<Partial<Pick<BuildRecord, "disk" | "layers">>> {
  const { directory, diskDirectory } = places;
  const disk = work.form === "disk" ? await writeDisk(entry, diskDirectory, memory) : undefined;
  return disk ?? { layers: await writeLayers(context, entry, { parent, directory, memory }) };
}

/** The layers stay those of the parent: everything above them is on the disk. */
async function writeDisk(
  { container }: Pick<SandboxEntry, "container">,
  directory: string,
  memory: string | undefined,
): Promise<Pick<BuildRecord, "disk"> | undefined> {
  const copy = await container.copyDisk?.(directory, memory);
  if (copy === undefined) return undefined;
  const image = join(SNAPSHOT_DISKS, basename(directory), basename(copy.image));
  return { disk: { image, idBase: copy.idBase } };
}

/** Where the newest layer lies until it has become one with those below it. */
function topOf(directory: string): string {
  return `${directory}.top`;
}

interface LayerPlan extends Pick<WritePlan, "parent" | "memory"> {
  readonly directory: string;
}

/** The layers of the parent and a new one in `directory`, or that one alone upon the template. */
async function writeLayers(
  context: Services & Tenant & Folders,
  { container }: Pick<SandboxEntry, "container">,
  plan: LayerPlan,
): Promise<BuildRecord["layers"]> {
  const { parent, directory, memory } = plan;
  const bytes = container.disk?.readGrowth()?.usedBytes ?? 0;
  const { copies, layersDirectory } = context;
  const copy = async (target: string) =>
    copies.during(layersDirectory, bytes, () => container.snapshot(target, memory));
  const toStored = (layer: Layer) => context.templates.toStored(layer);
  if (parent.layers.length < MAX_LAYERS) {
    return [...parent.layers, toStored(await copy(directory))];
  }
  const top = await copy(topOf(directory));
  await step("squash.begun");
  const kept = countBuiltIn(parent);
  const layers = [...toLayers(context.layersDirectory, parent), top];
  const { signal } = new AbortController();
  const squashed = await squashLayers(context, { layers, kept, directory, signal });
  await removeTree(topOf(directory));
  await step("squash.done");
  return [...parent.layers.slice(0, kept), toStored(squashed)];
}

/** Removes the memory of a build from which no further sandbox starts; its files stay. */
export async function dropMemory(context: Services & Folders, build: BuildRecord): Promise<void> {
  const { memory, ...files } = build;
  if (memory === undefined || !("folder" in memory)) return;
  const { store, layersDirectory } = context;
  if (store.builds.get(build.buildId) !== undefined) store.builds.put(files);
  await cleanUpOrRetry(context, `memory of ${build.buildId}`, () =>
    removeLayers(layersDirectory, [memory.folder]),
  );
}

/** Another instance may still be starting the forks of a build this young. */
const MIN_AGE_MS = 10 * 60_000;

/** Forgets a build if only forks stood on it and none is left; any other one stays. */
export async function releaseForkBuild(
  context: Services & Folders & Registry,
  buildId: string,
): Promise<void> {
  const { store, layersDirectory, activeForkBuilds: forking } = context;
  if (forking.has(buildId)) return;
  const build = store.builds.get(buildId);
  if (build === undefined) return;
  const folders = store.transaction(() => forget(store, build));
  await cleanUpOrRetry(context, `layers of ${buildId}`, () =>
    removeLayers(layersDirectory, folders),
  );
}

/** Forgets what forks of dead instances left; their layers are orphans then. */
export function forgetForkBuilds(store: Store, nowMs: number): void {
  for (const build of store.builds.withoutTemplate()) {
    if ((build.finishedAtMs ?? nowMs) > nowMs - MIN_AGE_MS) continue;
    store.transaction(() => forget(store, build));
  }
}

/**
 * As `forgetForkBuilds`, for an instance that starts or is gone: none of its forks is under way. One
 * on which forks stand has no memory from then on: all that were to go on from it have started.
 */
export function forgetOwnForkBuilds(store: Store, owner: string): void {
  for (const build of store.builds.withoutTemplate()) {
    if (build.owner !== owner) continue;
    store.transaction(() => {
      forget(store, build);
      forgetMemory(store, build.buildId);
    });
  }
}

/** Its folder is an orphan then. Another process may remove the row: part of a transaction. */
function forgetMemory(store: Store, buildId: string): void {
  const build = store.builds.get(buildId);
  if (build?.memory === undefined || !isOfForks(store, build)) return;
  const { memory: _memory, ...files } = build;
  store.builds.put(files);
}

/** Returns the folders that nothing names any more. */
function forget(store: Store, build: BuildRecord): string[] {
  const { buildId } = build;
  if (!isOfForks(store, build)) return [];
  if (store.sandboxes.countOfBuild(buildId) > 0) return [];
  store.builds.remove(buildId);
  return unnamedFolders(store, [build]);
}

function isOfForks(store: Store, build: BuildRecord): boolean {
  const { templateId, status } = build;
  // Steps of template builds have rules of their own.
  if (build.cacheKey !== undefined || isNeededLive(store, build)) return false;
  return status === "ready" && store.templates.get(templateId) === undefined;
}
