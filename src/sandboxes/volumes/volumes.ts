/** Named folders that outlive sandboxes and that several of them may have at once. */

import { randomUUID } from "node:crypto";
import { chown, mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { draftOf, isThere, syncFolder } from "../../common/files.ts";
import { storedId } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { hasVolumeDisk, volumeContent } from "../../engine/storage/volume-disk.ts";
import type { SandboxRecord, VolumeRecord } from "../../store/store.ts";
import { MESSAGES } from "../../wire/messages.ts";
import type { Folders, Registry, Services, Tenant } from "../context.ts";
import { creationUnderWay, KEPT_MS, requireSameRequest, whileActive } from "../creation-record.ts";
import { requireDiskSpace } from "../disks/disk-space.ts";
import { cleanUpOrRetry } from "../retry-cleanup.ts";
import type { CreationKey } from "../sandbox.ts";
import { VOLUME_OWNER_ID, type DiskVolume } from "./volume-disks.ts";
import {
  MAX_VOLUMES,
  placeMounts,
  refuseMissing,
  requireVolumeId,
  requireVolumeName,
  type MountRequest,
} from "./volume-rules.ts";

/** A volume, and the token for its content. */
export interface Volume extends VolumeRecord {
  readonly token: string;
}

/** Where a volume is on the host; one with a disk, while that is mounted. */
export function volumeDirectory(
  { home, volumesDirectory }: Pick<Folders, "home" | "volumesDirectory">,
  volume: Pick<VolumeRecord, "volumeId" | "sizeMb">,
): string {
  return hasDisk(volume)
    ? volumeContent(home, volume.volumeId)
    : join(volumesDirectory, volume.volumeId);
}

/** Whether it is a file system of its own, with a size. */
export function hasDisk<T extends Pick<VolumeRecord, "volumeId" | "sizeMb">>(
  volume: T | undefined,
): volume is T & DiskVolume {
  return volume?.sizeMb !== undefined;
}

/**
 * Makes sure that the volumes of a sandbox are where its container looks for them, and stay there
 * while its row names them.
 * @throws SandboxError unavailable
 */
export async function mountVolumes(
  { store, volumeDisks }: Pick<Services, "store"> & Pick<Folders, "volumeDisks">,
  mounts: SandboxRecord["volumeMounts"],
): Promise<void> {
  await volumeDisks.mount(
    mounts.map(({ volumeId }) => store.volumes.get(volumeId)).filter((row) => hasDisk(row)),
  );
}

/**
 * Makes an empty volume. Its key is on record with it: sent again, the request gets the volume as long
 * as there is one.
 * @throws SandboxError invalid_argument for a bad name, or one that is taken, resource_exhausted
 * when the team has as many as it may; with a key also what `createOnce` throws.
 */
export async function createVolume(
  context: Services & Tenant & Folders & Pick<Registry, "activeCreates">,
  name: string,
  once?: CreationKey,
): Promise<Volume> {
  if (once === undefined) return makeVolume(context, name, undefined);
  // Keys have no slash.
  const active = `${context.team}/volumes/${once.key}`;
  return whileActive(context, { ...once, name: active }, async () => {
    const known = findMade(context, once);
    return known === undefined ? makeVolume(context, name, once) : withToken(context, known);
  });
}

/** @throws SandboxError invalid_argument when the key belongs to another request. */
function findMade(
  { store, clock, team }: Services & Tenant,
  once: CreationKey,
): VolumeRecord | undefined {
  const sinceMs = clock.now() - KEPT_MS;
  const made = store.volumes
    .all()
    .find(
      ({ creation, createdAtMs, ...of }) =>
        of.team === team && creation?.key === once.key && createdAtMs >= sinceMs,
    );
  if (made?.creation !== undefined) requireSameRequest(once, made.creation.fingerprint);
  return made;
}

async function makeVolume(
  context: Services & Tenant & Folders,
  name: string,
  creation: CreationKey | undefined,
): Promise<Volume> {
  const { store, clock, team } = context;
  requireVolumeName(name);
  await requireDiskSpace(context.volumesDirectory);
  const { sizeMb } = context.volumeDisks;
  const volume: VolumeRecord = {
    volumeId: randomUUID(),
    name,
    team,
    createdAtMs: clock.now(),
    isBeingMade: true,
    ...(sizeMb !== undefined && { sizeMb }),
    ...(creation !== undefined && { creation }),
  };
  store.transaction(() => {
    // Another service of the home may have been first.
    if (creation !== undefined && findMade(context, creation) !== undefined) {
      throw creationUnderWay();
    }
    if (store.volumes.getByName(team, name) !== undefined) {
      throw new SandboxError("invalid_argument", `Volume with name '${name}' already exists`);
    }
    const amount = store.volumes.all().filter((other) => other.team === team).length;
    if (amount >= MAX_VOLUMES) {
      const message = `your team has ${amount} volumes of at most ${MAX_VOLUMES}`;
      throw new SandboxError("resource_exhausted", message);
    }
    store.volumes.add(volume);
  });
  try {
    await step("volume.recorded");
    await makeContent(context, volume);
    // A removal meanwhile found nothing to remove.
    if (store.volumes.get(volume.volumeId) === undefined) await removeContent(context, volume);
  } catch (error) {
    await cleanUpOrRetry(context, `volume ${name}`, async () => {
      store.volumes.remove(volume.volumeId);
      await removeContent(context, volume);
    });
    throw toSandboxError(error, "volume");
  }
  await step("volume.made");
  return withToken(context, volume);
}

type Making = Pick<Services, "store" | "closing"> &
  Pick<Folders, "home" | "volumesDirectory" | "volumeDisks">;

/**
 * Makes the disks and folders that a service had no time for when it died. One that cannot be made
 * now is made later, and keeps nothing else of the service from its start.
 */
export async function finishVolumes(
  context: Making & Pick<Services, "log" | "retry">,
): Promise<void> {
  for (const volume of context.store.volumes.all()) {
    await cleanUpOrRetry(context, `volume ${volume.name}`, async () => {
      if (context.store.volumes.get(volume.volumeId) === undefined) return;
      if (await isMade(context, volume)) {
        // The service may have died before it removed the mark, by which lost content is made anew.
        if (volume.isBeingMade) context.store.volumes.setMade(volume.volumeId);
        return;
      }
      if (volume.isBeingMade) return makeContent(context, volume);
      const { volumeId } = volume;
      context.log.error({ op: "volume.make", volumeId }, "the content of a volume is missing");
    });
  }
}

async function isMade(context: Making, volume: VolumeRecord): Promise<boolean> {
  return hasDisk(volume)
    ? hasVolumeDisk(context.home, volume.volumeId)
    : isThere(volumeDirectory(context, volume));
}

/** Oldest first. */
export function listVolumes(context: Services & Tenant): Volume[] {
  return context.store.volumes
    .all()
    .filter(({ team }) => team === context.team)
    .toSorted((left, right) => left.createdAtMs - right.createdAtMs)
    .map((volume) => withToken(context, volume));
}

/** @throws SandboxError invalid_argument for no identifier, not_found when there is none. */
export function getVolume(context: Services & Tenant, volumeId: string): Volume {
  requireVolumeId(volumeId);
  const volume = context.store.volumes.get(volumeId);
  if (volume?.team !== context.team) {
    throw new SandboxError("not_found", MESSAGES.volumeMissing);
  }
  return withToken(context, volume);
}

/**
 * Removes a volume with everything in it.
 * @throws SandboxError as `getVolume`, and failed_precondition while a sandbox has it.
 */
export async function removeVolume(
  context: Services & Tenant & Folders,
  volumeId: string,
): Promise<void> {
  const { store } = context;
  const removed = store.transaction(() => {
    const volume = getVolume(context, volumeId);
    if (store.volumes.countMounts(volumeId) > 0) {
      throw new SandboxError("failed_precondition", "Volume is mounted in a sandbox");
    }
    store.volumes.remove(volumeId);
    return volume;
  });
  await cleanUpOrRetry(context, `volume ${volumeId}`, async () => {
    await step("volume.erased");
    await removeContent(context, removed);
  });
}

/**
 * The volumes that a create asks for.
 * @throws SandboxError invalid_argument with every fault of the list.
 */
export function resolveMounts(
  context: Services & Tenant,
  requests: readonly MountRequest[],
): SandboxRecord["volumeMounts"] {
  const find = (name: string) => context.store.volumes.getByName(context.team, name)?.volumeId;
  return placeMounts(requests, { find });
}

/** @throws SandboxError invalid_argument, as `resolveMounts`, when one was removed since. */
export function requireMounts(
  { store }: Pick<Services, "store">,
  mounts: SandboxRecord["volumeMounts"],
): void {
  refuseMissing(mounts, (volumeId) => store.volumes.get(volumeId) !== undefined);
}

async function makeContent(context: Making, volume: VolumeRecord): Promise<void> {
  if (hasDisk(volume)) await context.volumeDisks.make(volume, context.closing);
  else await makeDirectory(context, volume);
  context.store.volumes.setMade(volume.volumeId);
}

async function makeDirectory(context: Making, volume: VolumeRecord): Promise<void> {
  const directory = volumeDirectory(context, volume);
  const draft = draftOf(directory);
  await mkdir(draft, { recursive: true, mode: 0o755 });
  // Without the right to give files away there is no engine that maps their owners either.
  const owner = storedId(VOLUME_OWNER_ID);
  if (process.getuid?.() === 0) await chown(draft, owner, owner);
  await rename(draft, directory);
  await syncFolder(context.volumesDirectory);
}

/** Of a volume that was not finished, too. */
async function removeContent(context: Folders, volume: VolumeRecord): Promise<void> {
  if (hasDisk(volume)) {
    await context.volumeDisks.remove(volume.volumeId);
    return;
  }
  const directory = volumeDirectory(context, volume);
  for (const path of [directory, draftOf(directory)]) await removeTree(path);
}

function withToken({ secrets }: Services, volume: VolumeRecord): Volume {
  return { ...volume, token: secrets.volumeToken(volume.volumeId) };
}
