/** Where the content of a volume is while a request works on it, and what is said when it is full. */

import type { FileHandle } from "node:fs/promises";
import { isCode, quotaError, SandboxError } from "../../common/errors.ts";
import { draftOf } from "../../common/files.ts";
import { volumeDraft } from "../../engine/storage/volume-disk.ts";
import type { VolumeRecord } from "../../store/store.ts";
import { MESSAGES } from "../../wire/messages.ts";
import type { Folders, Services } from "../context.ts";
import { reserveOf } from "../disks/disk-budget.ts";
import { readSpace, requireDiskSpace } from "../disks/disk-space.ts";
import type { DiskVolume } from "./volume-disks.ts";
import { hasDisk, volumeDirectory } from "./volumes.ts";

type PlaceContext = Folders & Pick<Services, "store">;

export interface OpenFile {
  readonly file: FileHandle;
  readonly sizeBytes: number;
}

export interface VolumePlace {
  readonly root: string;
  /** A file of the same file system that no sandbox sees. */
  draftOf(name: string): string;
  /** Does the work while the volume is there. @throws SandboxError not_found, unavailable, resource_exhausted */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** The same until the file that the work opened is closed. */
  untilClosed(work: () => Promise<OpenFile>): Promise<OpenFile & AsyncDisposable>;
  /** @throws SandboxError resource_exhausted when the disk of the service has too little left. */
  requireSpace(): Promise<void>;
}

export function openVolumePlace(context: PlaceContext, volume: VolumeRecord): VolumePlace {
  const { volumesDirectory } = context;
  const { volumeId } = volume;
  const root = volumeDirectory(context, volume);
  const requireSpace = async () => requireDiskSpace(volumesDirectory);
  if (!hasDisk(volume)) {
    return {
      root,
      draftOf: (name) => draftOf(`${root}.${name}`),
      during: async (work) => work(),
      untilClosed: async (work) => closing(await work()),
      requireSpace,
    };
  }
  return {
    root,
    draftOf: (name) => volumeDraft(context.home, volumeId, name),
    async during(work) {
      const use = await beginUse(context, volume);
      try {
        return await work();
      } catch (error) {
        throw await toFullFault(context, volume, error);
      } finally {
        use[Symbol.dispose]();
      }
    },
    async untilClosed(work) {
      const use = await beginUse(context, volume);
      try {
        return closing(await work(), use);
      } catch (error) {
        use[Symbol.dispose]();
        throw error;
      }
    },
    requireSpace,
  };
}

/** @throws SandboxError also not_found for one that another service removed meanwhile. */
async function beginUse(
  { store, volumeDisks }: PlaceContext,
  volume: DiskVolume,
): Promise<Disposable> {
  const isRemoved = () => store.volumes.get(volume.volumeId) === undefined;
  const use = await volumeDisks.use(volume).catch((error: unknown) => {
    throw isRemoved() ? volumeMissing(error) : error;
  });
  // The removal may still wait for the lock that the mount had.
  if (!isRemoved()) return use;
  use[Symbol.dispose]();
  throw volumeMissing();
}

function volumeMissing(cause?: unknown): SandboxError {
  return new SandboxError("not_found", MESSAGES.volumeMissing, { cause });
}

function closing(opened: OpenFile, use?: Disposable): OpenFile & AsyncDisposable {
  return {
    ...opened,
    async [Symbol.asyncDispose]() {
      await opened.file.close();
      use?.[Symbol.dispose]();
    },
  };
}

/**
 * Where the disk of the service has enough left, the volume itself is what is full. A limit of its growth
 * can hold before that disk is at its reserve: it counts what images were promised.
 */
async function toFullFault(
  { volumesDirectory, volumeDisks }: PlaceContext,
  { volumeId, sizeMb }: DiskVolume,
  error: unknown,
): Promise<unknown> {
  if (!isCode(error, "ENOSPC")) return error;
  const { freeBytes, totalBytes } = await readSpace(volumesDirectory);
  if (freeBytes < reserveOf(totalBytes) || volumeDisks.isLimited(volumeId)) {
    return error;
  }
  const hint = "remove files from the volume, or use another one";
  return quotaError(`the volume of ${sizeMb} MiB is full`, hint, error);
}
