/** Removes what instances left that are no longer there, and nothing else. */

import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { isFarAway } from "../../common/clock.ts";
import { listFolder } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import type { Engine } from "../../engine/engine.ts";
import { removeImage } from "../../engine/gvisor/remove-image.ts";
import { withLock } from "../../engine/host/lock.ts";
import { hasTimeLeft } from "../../engine/oci/deadline.ts";
import { endGuardian } from "../../engine/oci/guardian.ts";
import { removeDeadLayers } from "../../engine/storage/layers.ts";
import {
  listVolumeDisks,
  removeVolumeDisk,
  syncVolumeDisks,
  unmountVolumeDisks,
} from "../../engine/storage/volume-disk.ts";
import type { Store } from "../../store/store.ts";
import { forgetForkBuilds } from "../builds/builds.ts";
import { ORPHAN_PLACES, readBuilds, withoutBuild } from "../builds/layer-folders.ts";
import { forgetLostLines } from "../template-builds/abandoned-builds.ts";
import { forgetOldSteps } from "../template-builds/cache.ts";
import { pruneImages } from "../templates/image-templates.ts";
import { removeTraces } from "./discard.ts";
import {
  containersDirectory,
  controlSocketPath,
  hasKeepMark,
  instanceDirectory,
  isUnnamed,
  listContainers,
  mayLive,
} from "./instance-folder.ts";
import { forgetInstance, ownersOf } from "./instance-rows.ts";
import { removeLostStoreDisks, removeLostVolumeImages } from "./lost-store-disks.ts";

/** A clean-up ends each container of a dead instance; another one waits for it this long. */
const CLEAN_UP_TIMEOUT_MS = 10 * 60_000;

/** An upload to a volume: its volume, and what tells it from others. */
const UPLOAD_PATTERN = /^[0-9a-f-]{36}\.[0-9a-f]{16}\.part$/;
const MAX_UPLOAD_PAUSE_MS = 5 * 60_000;

export interface ReclaimOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly home: string;
  /** The instance that asks; undefined when it is none. */
  readonly self: string | undefined;
  /** Whether sandboxes go too that their instance means to find again. */
  readonly takesKept: boolean;
  /** Told of each thing that could not be removed; the rest is removed all the same. */
  readonly onFailure: TellFailure;
  /** Ends the wait for another process that cleans up. */
  readonly signal?: AbortSignal | undefined;
}

export interface Reclaimed {
  readonly kind: "sandbox" | "instance" | "layer" | "volume" | "tool";
  readonly name: string;
}

/**
 * Removes the containers, folders and rows of every dead instance; says what there was. An
 * instance that answers at its control socket, or that stops, is never touched. A failure is reported
 * and stops nothing else.
 * One process of a home does so at a time.
 */
export async function reclaim(options: ReclaimOptions): Promise<Reclaimed[]> {
  const { home, signal } = options;
  const lock = { home, name: "reclaim", timeoutMs: CLEAN_UP_TIMEOUT_MS, signal } as const;
  return withLock(lock, async () => removeLeftovers(options));
}

async function removeLeftovers(options: ReclaimOptions): Promise<Reclaimed[]> {
  const { home, self, store } = options;
  const reclaimed: Reclaimed[] = [];
  for (const instance of await listFolder(join(home, "instances"))) {
    if (instance === self) continue;
    try {
      if (await isLeft(options, instance)) {
        reclaimed.push(...(await removeDeadInstance(options, instance)));
      }
    } catch (error) {
      options.onFailure({ kind: "instance", name: instance, error });
    }
  }
  // First the rows: an instance that starts now makes its folder before them.
  const owners = ownersOf(store);
  const instances = new Set(await listFolder(join(home, "instances")));
  for (const owner of owners) {
    if (owner !== self && !instances.has(owner)) forgetInstance(store, owner);
  }
  reclaimed.push(...(await removeOrphans(options)));
  const disks = await removeLostStoreDisks(options, () => listEveryContainer(home));
  reclaimed.push(...disks.map((name) => ({ kind: "sandbox" as const, name })));
  const images = await removeLostVolumeImages(options);
  reclaimed.push(...images.map((name) => ({ kind: "volume" as const, name })));
  const directories = await listEveryContainer(home);
  try {
    const tools = await options.engine.prune(directories, options.onFailure);
    reclaimed.push(...tools.map((name) => ({ kind: "tool" as const, name })));
  } catch (error) {
    options.onFailure({ kind: "tool", name: "daemon", error });
  }
  return reclaimed;
}

/** Whether an instance is dead, and nothing in it waits for its next start or for a time to live. */
async function isLeft({ home, takesKept }: ReclaimOptions, instance: string): Promise<boolean> {
  if (await mayLive(home, instance)) return false;
  if (takesKept || !(await hasKeepMark(home, instance))) return true;
  // No later process has its name: what is paused in it cannot be resumed either.
  if (!isUnnamed(instance)) return false;
  return !(await hasTimeLeft(containersDirectory(home, instance)));
}

async function listEveryContainer(home: string): Promise<string[]> {
  const directories: string[] = [];
  for (const instance of await listFolder(join(home, "instances"))) {
    const directory = containersDirectory(home, instance);
    for (const name of await listFolder(directory)) directories.push(join(directory, name));
  }
  return directories;
}

/** Removes the folders of dead fronts of a cluster: they have a socket and nothing else. */
export async function removeDeadFronts(home: string, onFailure: TellFailure): Promise<void> {
  const socket = basename(controlSocketPath(home, ""));
  const isDead = async (instance: string) => {
    const names = await listFolder(instanceDirectory(home, instance));
    const isFront = names.every((name) => name.startsWith(socket));
    return isFront && isUnnamed(instance) && !(await mayLive(home, instance));
  };
  const remove = async (instance: string) => {
    if (await isDead(instance)) await removeTree(instanceDirectory(home, instance));
  };
  const names = await listFolder(join(home, "instances"));
  await cleanUp({ kind: "instance", names, remove }, onFailure);
}

async function removeDeadInstance(options: ReclaimOptions, instance: string): Promise<Reclaimed[]> {
  const { home, signal } = options;
  const remove = async () =>
    (await mayLive(home, instance)) ? [] : removeInstance(options, instance);
  if (isUnnamed(instance)) return remove();
  // It may be starting again: it takes the same lock until it can be reached.
  return withLock({ home, name: "instance", signal }, remove);
}

async function removeInstance(options: ReclaimOptions, instance: string): Promise<Reclaimed[]> {
  const { engine, home, store } = options;
  const directory = containersDirectory(home, instance);
  // What it would still end is removed now.
  await endGuardian(instanceDirectory(home, instance));
  // One that was nearly removed has a row and no folder.
  const rows = store.sandboxes.ofOwner(instance).map(({ sandboxId }) => sandboxId);
  const names = [...new Set([...(await listContainers(home, instance)), ...rows])];
  const remove = async (name: string) => removeTraces({ engine, store, directory }, name);
  const removed = await cleanUp({ kind: "sandbox", names, remove }, options.onFailure);
  const reclaimed: Reclaimed[] = removed.map((name) => ({ kind: "sandbox", name }));
  // Its folder and its rows are how the next clean-up finds what is left of it.
  if (removed.length < names.length) return reclaimed;
  forgetInstance(store, instance);
  await removeTree(instanceDirectory(home, instance));
  reclaimed.push({ kind: "instance", name: instance });
  return reclaimed;
}

/** Removes the layers that no build names and no template will be: half made, or half deleted. */
async function removeOrphans(options: ReclaimOptions): Promise<Reclaimed[]> {
  const { store, home, onFailure } = options;
  forgetForkBuilds(store, Date.now());
  forgetOldSteps(store, Date.now());
  forgetLostLines(store);
  const volumes = await removeLostVolumes(options);
  const directory = join(home, "layers");
  const places = ORPHAN_PLACES.map(async ([place]) => listFolder(join(directory, place)));
  const folders = await Promise.all(places);
  // Once, because they may be many; after the folders, because a build has its row first.
  const builds = await readBuilds(store);
  const layers: string[] = [];
  for (const [index, [place, findOrphans]] of ORPHAN_PLACES.entries()) {
    const orphans = findOrphans(folders[index] ?? [], builds);
    // A build that was made while the others were read may have taken over what a removed one named.
    const names = withoutBuild(store, orphans, place);
    const remove = async (name: string) => removeImage(join(directory, place, name));
    layers.push(...(await cleanUp({ kind: "layer", names, remove }, onFailure)));
  }
  layers.push(...(await removeDeadLayers(home, onFailure)));
  layers.push(...(await pruneImages(options)));
  return [
    ...volumes.map((name) => ({ kind: "volume" as const, name })),
    ...layers.map((name) => ({ kind: "layer" as const, name })),
  ];
}

/** An upload that has not got a byte for so long is over. */
async function isOldFile(path: string): Promise<boolean> {
  const entry = await stat(path).catch(() => undefined);
  return entry !== undefined && isFarAway(entry.mtimeMs, MAX_UPLOAD_PAUSE_MS);
}

/** Removes folders of volumes that were being removed when their service died. */
async function removeLostVolumes({ store, home, onFailure }: ReclaimOptions): Promise<string[]> {
  const directory = join(home, "volumes");
  // A new volume has its row before its folder. Drafts of uploads may be those of another service.
  const isLost = async (name: string) =>
    UPLOAD_PATTERN.test(name)
      ? isOldFile(join(directory, name))
      : store.volumes.get(name.replace(/\.part$/, "")) === undefined;
  const names: string[] = [];
  for (const name of await listFolder(directory)) if (await isLost(name)) names.push(name);
  const remove = async (name: string) => removeTree(join(directory, name));
  return [
    ...(await cleanUp({ kind: "volume", names, remove }, onFailure)),
    ...(await removeLostDisks({ store, home, onFailure })),
  ];
}

/** The same of volumes with disks; those of others that no process uses are unmounted. */
async function removeLostDisks({
  store,
  home,
  onFailure,
}: Pick<ReclaimOptions, "store" | "home" | "onFailure">): Promise<string[]> {
  const all = await listVolumeDisks(home);
  const isLost = (name: string) => store.volumes.get(name.replace(/\.part$/, "")) === undefined;
  const remove = async (name: string) => removeVolumeDisk(home, name);
  const removed = await cleanUp({ kind: "volume", names: all.filter(isLost), remove }, onFailure);
  const unmount = async () => {
    const kept = all.filter((name) => !isLost(name));
    try {
      await syncVolumeDisks(home, kept);
    } finally {
      await unmountVolumeDisks(home, kept);
    }
  };
  await cleanUp({ kind: "volume", names: ["mounts"], remove: unmount }, onFailure);
  return removed;
}
