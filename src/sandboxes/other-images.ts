/**
 * The mounted disk images of the home that this service does not watch: those of other services, and of
 * sandboxes that a killed one left. They take of the same disk as its own.
 */

import { realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isCode } from "../common/errors.ts";
import { listFolder } from "../common/files.ts";
import type { DiskGrowth } from "../engine/engine.ts";
import { readMounts } from "../engine/host/mount-table.ts";
import { DISK_NAMES, openDisk } from "../engine/storage/disk.ts";
import { readLimit } from "../engine/storage/growing-disk.ts";
import { openVolumeDisk } from "../engine/storage/volume-disk.ts";
import type { Folders, Services, Tenant } from "./context.ts";
import { NO_OTHERS, promisedOf, type OtherImages } from "./disks/disk-budget.ts";
import type { CopyLedger } from "./disks/disk-space.ts";
import { containersDirectory } from "./reclaim/instance-folder.ts";

const LOOKS_PER_TURN = 32;
/** In a home, where it is mounted: the disk of a container of an instance, and that of a volume. */
const CONTAINER_PATTERN = /^\/instances\/([^/]+)\/s\/[^/]+\/disk$/;
const VOLUME_PATTERN = /^\/volume-disks\/([^/]+)\/disk$/;

type OtherContext = Pick<Services, "store"> &
  Pick<Tenant, "owner"> &
  Pick<Folders, "home" | "volumeDisks">;

/** Nothing is looked at while the home has no other instance. */
export async function readOtherImages(context: OtherContext): Promise<OtherImages> {
  const { home, owner } = context;
  if (!(await hasOthers(home, owner))) return NO_OTHERS;
  const instances = new Set<string>();
  let [promisedBytes, grantedBytes] = [0, 0];
  for (const [index, { mount, instance, volumeId }] of (await findMounts(context)).entries()) {
    const image = join(dirname(mount), DISK_NAMES.image);
    const growth = whileThere(() => readGrowth(context, mount, volumeId));
    if (growth === undefined) continue;
    if (instance !== undefined) instances.add(instance);
    promisedBytes += promisedOf(growth);
    grantedBytes += whileThere(() => readLimit(image, mount)) ?? 0;
    if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
  }
  return { services: instances.size, promisedBytes, grantedBytes };
}

/** For a service that watches no image itself: what it copies and takes leaves what others were promised. */
export async function notePromisedToOthers(
  context: OtherContext & { readonly copies: Pick<CopyLedger, "notePromised"> },
): Promise<void> {
  const { promisedBytes } = await readOtherImages(context);
  context.copies.notePromised(promisedBytes);
}

async function hasOthers(home: string, owner: string): Promise<boolean> {
  const parent = dirname(dirname(containersDirectory(home, owner)));
  return (await listFolder(parent)).some((name) => name !== owner);
}

interface OtherMount {
  readonly mount: string;
  readonly instance?: string | undefined;
  readonly volumeId?: string | undefined;
}

async function findMounts({ home, owner, volumeDisks }: OtherContext): Promise<OtherMount[]> {
  const root = await realpath(home);
  const targets = new Set((await readMounts()).map(({ target }) => target));
  return [...targets].flatMap((mount): OtherMount[] => {
    if (!mount.startsWith(`${root}/`)) return [];
    const path = mount.slice(root.length);
    const instance = CONTAINER_PATTERN.exec(path)?.[1];
    const volumeId = VOLUME_PATTERN.exec(path)?.[1];
    const isOther =
      volumeId === undefined
        ? instance !== undefined && instance !== owner
        : !volumeDisks.has(volumeId);
    return isOther ? [{ mount, instance, volumeId }] : [];
  });
}

function readGrowth(
  { home, store }: OtherContext,
  mount: string,
  volumeId: string | undefined,
): DiskGrowth | undefined {
  if (volumeId === undefined) return openDisk(dirname(mount))?.readGrowth();
  const sizeMb = store.volumes.get(volumeId)?.sizeMb;
  return sizeMb === undefined ? undefined : openVolumeDisk(home, { volumeId, sizeMb }).readGrowth();
}

/** It may be unmounted and removed at any moment. */
function whileThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}
