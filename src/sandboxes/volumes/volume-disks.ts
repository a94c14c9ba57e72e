/**
 * The disks of volumes that this process uses. One is mounted at its first use and unmounted a moment
 * after the last: no sandbox of the home has it, and no request for its content is under way.
 */

import assert from "node:assert";
import type { FileHandle } from "node:fs/promises";
import type { Clock } from "../../common/clock.ts";
import { createGate, type Gate } from "../../common/concurrency.ts";
import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { asOperation } from "../../common/operation.ts";
import { isRootless } from "../../common/privilege.ts";
import type { GrowingDisk } from "../../engine/engine.ts";
import {
  createVolumeDiskMaker,
  eraseVolumeDisk,
  flushVolumeDisks,
  hasVolumeDisk,
  mountVolumeDisks,
  openVolumeDisk,
  setVolumeDiskAside,
  syncVolumeDisks,
  unmountVolumeDisks,
  type VolumeDiskMaker,
} from "../../engine/storage/volume-disk.ts";
import type { Store, VolumeRecord } from "../../store/store.ts";
import type { WatchList } from "../watch-list.ts";

/** Clients of the content of a volume send several requests in a row. */
const IDLE_MS = 5_000;

/** Mounts of volumes wait for them. */
const UNMOUNTS_AT_ONCE = 16;
/** Without any use at the moment; each is a few threads of the kernel. */
const MAX_IDLE = 64;

/** A new volume belongs to the user whom templates make for programs. */
export const VOLUME_OWNER_ID = 1000;

/** A volume that has a disk of its own, as all have that this version makes where it may mount. */
export type DiskVolume = Pick<VolumeRecord, "volumeId"> & { readonly sizeMb: number };

export interface VolumeDisks extends AsyncDisposable {
  /** Of new volumes; undefined where they are folders of the home. */
  readonly sizeMb: number | undefined;
  make(volume: DiskVolume, signal: AbortSignal): Promise<void>;
  /**
   * Mounts what volumes need that a sandbox has; it stays while a row of a sandbox names them.
   * @throws SandboxError unavailable
   */
  mount(volumes: readonly DiskVolume[]): Promise<void>;
  /** Mounts it until the result is disposed. @throws SandboxError unavailable */
  use(volume: DiskVolume): Promise<Disposable>;
  /** Removes it, whatever uses it. */
  remove(volumeId: string): Promise<void>;
  /** Whether this process has it mounted. */
  has(volumeId: string): boolean;
  /** Whether this process has it mounted and it may grow by less than it has: the service's disk is short. */
  isLimited(volumeId: string): boolean;
  /** Those that this process has mounted, by the id of the volume. */
  mounted(): readonly (readonly [volumeId: string, disk: GrowingDisk])[];
}

export interface VolumeDisksOptions {
  /** Absolute path. */
  readonly home: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly closing: AbortSignal;
  /** Undefined for a service whose volumes are folders. */
  readonly volumes?: { readonly sizeMb: number; readonly perlDirectory: string } | undefined;
  /** Looked after from the moment when they are mounted. */
  readonly watches: Pick<WatchList, "note">;
}

interface Held {
  readonly volume: DiskVolume;
  readonly disk: GrowingDisk;
  readonly hold: FileHandle;
  users: number;
  usedAtMs: number;
}

/** What this process has mounted, and the work on it. */
interface Mounts {
  readonly options: VolumeDisksOptions;
  readonly maker: VolumeDiskMaker;
  readonly held: Map<string, Held>;
  /** The lock of the home is for one process; its own calls wait here for each other. */
  readonly turns: Gate;
  /** Those whose disk is being made, one after the other: mounts of others do not wait for all of them. */
  readonly making: Map<string, Promise<void>>;
  sweeping: Promise<void> | undefined;
}

/** Mounts nothing by itself. */
export function startVolumeDisks(options: VolumeDisksOptions): VolumeDisks {
  const { home, clock, log, volumes } = options;
  const maker = createVolumeDiskMaker(home, volumes?.perlDirectory ?? "");
  const held = new Map<string, Held>();
  const turns = createGate(1);
  const makes = createGate(1);
  // Mounts of others wait for one removal, not for all that a client asked for at once.
  const removals = createGate(1);
  const making = new Map<string, Promise<void>>();
  const mounts: Mounts = { options, maker, held, turns, making, sweeping: undefined };
  return {
    sizeMb: isRootless() ? undefined : volumes?.sizeMb,
    mount: (wanted) => mountAll(mounts, wanted),
    async use(volume) {
      for (;;) {
        const entry = held.get(volume.volumeId);
        if (entry !== undefined) return beginUse(entry, clock);
        await mountAll(mounts, [volume]);
      }
    },
    async make({ volumeId, sizeMb }, signal) {
      const disk = { volumeId, sizeMb, owner: VOLUME_OWNER_ID };
      const made = makes.run(() => maker.make(disk, signal));
      making.set(volumeId, made);
      await made.finally(() => making.delete(volumeId));
    },
    async remove(volumeId) {
      await removals.run(() =>
        turns.run(async () => {
          const entry = held.get(volumeId);
          held.delete(volumeId);
          await entry?.hold.close();
          await setVolumeDiskAside(home, volumeId);
        }),
      );
      // Other volumes do not wait for it.
      await eraseVolumeDisk(home, volumeId);
    },
    has: (volumeId) => held.has(volumeId),
    isLimited: (volumeId) => held.get(volumeId)?.disk.isLimited() === true,
    mounted: () => [...held].map(([volumeId, { disk }]) => [volumeId, disk] as const),
    async [Symbol.asyncDispose]() {
      await mounts.sweeping;
      try {
        await turns.run(() => unmount(mounts, [...held.values()]));
      } catch (error) {
        log.warn({ op: "volume.unmount", err: error }, "volumes stay mounted");
      }
    },
  };
}

async function mountAll(mounts: Mounts, wanted: readonly DiskVolume[]): Promise<void> {
  const { options, held, turns, making } = mounts;
  const { home, clock, volumes } = options;
  const isHeld = ({ volumeId }: DiskVolume) => held.has(volumeId);
  if (wanted.every(isHeld)) return;
  await Promise.allSettled(wanted.flatMap(({ volumeId }) => making.get(volumeId) ?? []));
  await turns.run(async () => {
    // A sandbox may have the same volume twice.
    const byId = new Map(wanted.map((volume) => [volume.volumeId, volume]));
    const missing = [...byId.values()].filter((volume) => !isHeld(volume));
    if (missing.length === 0) return;
    if (held.size >= MAX_IDLE) await unmountSpare(mounts);
    const disks = missing.map((volume) => ({ ...volume, owner: VOLUME_OWNER_ID }));
    for (const disk of disks) await makeUnmade(mounts, disk);
    const holds = await mountVolumeDisks(home, volumes?.perlDirectory ?? "", disks);
    for (const [index, hold] of holds.entries()) {
      const volume = missing[index];
      assert(volume !== undefined);
      const disk = openVolumeDisk(home, volume);
      held.set(volume.volumeId, { volume, disk, hold, users: 0, usedAtMs: clock.elapsed() });
    }
  });
  options.watches.note();
  // All may be removed again; a sweep that ends at once would stand for those of later mounts.
  if (held.size > 0) mounts.sweeping ??= sweepWhileHeld(mounts);
}

/**
 * Another service of the home may have died before it made what it had recorded, or be making it.
 * @throws SandboxError unavailable for a disk that was made and is missing: an empty one in its place
 * would pass for the volume.
 */
async function makeUnmade(
  { options, maker }: Mounts,
  disk: Parameters<VolumeDiskMaker["make"]>[0],
): Promise<void> {
  const { home, store, closing } = options;
  const { volumeId } = disk;
  // Read first: the mark goes when the disk is there.
  const volume = store.volumes.get(volumeId);
  if (volume === undefined || (await hasVolumeDisk(home, volumeId))) return;
  if (volume.isBeingMade !== true) {
    throw new SandboxError("unavailable", `the disk of volume ${volume.name} is missing`, {
      hint: "restore the home of the service from a backup, or remove the volume",
    });
  }
  await maker.make(disk, closing);
  store.volumes.setMade(volumeId);
}

function beginUse(entry: Held, clock: Clock): Disposable {
  entry.users += 1;
  return {
    [Symbol.dispose]() {
      entry.users -= 1;
      entry.usedAtMs = clock.elapsed();
    },
  };
}

async function sweepWhileHeld(mounts: Mounts): Promise<void> {
  const { options, held } = mounts;
  const { clock, closing, log } = options;
  while (held.size > 0 && !closing.aborted) {
    try {
      await clock.sleep(IDLE_MS, closing);
      await unmountAllIdle(mounts);
    } catch (error) {
      if (closing.aborted) break;
      log.error({ op: "volume.unmount", err: error }, "volumes stay mounted");
    }
  }
  mounts.sweeping = undefined;
}

/** Some after the others, so that mounts come between. */
async function unmountAllIdle(mounts: Mounts): Promise<void> {
  while (!mounts.options.closing.aborted) {
    const idle = findUnused(mounts, IDLE_MS).slice(0, UNMOUNTS_AT_ONCE);
    if (idle.length === 0) return;
    await asOperation("volume.unmount", () => unmountIdle(mounts, idle));
  }
}

/** Those that nothing has used for so long, the one that was mounted first at the front. */
function findUnused({ options, held }: Mounts, forMs: number): readonly Held[] {
  const { store, clock } = options;
  const latestMs = clock.elapsed() - forMs;
  const idle = [...held.values()].filter(
    ({ users, usedAtMs }) => users === 0 && usedAtMs <= latestMs,
  );
  if (idle.length === 0) return [];
  const mounted = store.volumes.mounted();
  return idle.filter(({ volume }) => !mounted.has(volume.volumeId));
}

/** Where clients ask for one volume after the other, those of before are not kept. */
async function unmountSpare(mounts: Mounts): Promise<void> {
  const unused = findUnused(mounts, 0);
  if (unused.length >= MAX_IDLE) await unmount(mounts, unused.slice(0, UNMOUNTS_AT_ONCE));
}

async function unmountIdle(mounts: Mounts, entries: readonly Held[]): Promise<void> {
  const { options, turns } = mounts;
  const ids = entries.map(({ volume }) => volume.volumeId);
  await flushVolumeDisks(options.home, ids).catch((error: unknown) => {
    // Another process may have removed one of them.
    options.log.debug({ op: "volume.unmount", err: error }, "free blocks stay taken");
  });
  // One may be in use again, or gone.
  await turns.run(async () => {
    const unused = new Set(findUnused(mounts, IDLE_MS));
    await unmount(
      mounts,
      entries.filter((entry) => unused.has(entry)),
    );
  });
}

/** What another process uses it unmounts; what fails the next clean-up of the home unmounts. */
async function unmount({ options, held }: Mounts, entries: readonly Held[]): Promise<void> {
  const ids = entries.map(({ volume }) => volume.volumeId);
  for (const id of ids) held.delete(id);
  await syncVolumeDisks(options.home, ids).catch((error: unknown) => {
    // What was acknowledged had its own fsync(2).
    options.log.warn(
      { op: "volume.unmount", err: error },
      "last writes to volumes were not stored",
    );
  });
  for (const { hold } of entries) await hold.close();
  await unmountVolumeDisks(options.home, ids);
}
