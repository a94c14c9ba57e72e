/** Whether the disk of the home has enough free space for something new. */

import { statfs } from "node:fs/promises";
import { anySignal } from "../../common/any-signal.ts";
import {
  COPY_FULL_PATTERN,
  diskFullError,
  errorText,
  isCode,
  SandboxError,
  type ErrorWord,
} from "../../common/errors.ts";
import { BTRFS, readPendingBytes } from "../../engine/storage/btrfs-space.ts";
import { readStoreSpace } from "../../engine/storage/store-image.ts";
import { copyFloorOf, reserveOf, type HostSpace } from "./disk-budget.ts";

/** With less than this, what fails fails for want of it. */
const FULL_BYTES = 16 * 1024 ** 2;
const FULL_INODES = 64;
/** Kept free as the reserve of bytes is, for what runs already; a sandbox takes some twenty. */
const RESERVED_INODES = 1_000;
const BYTES_PER_MB = 1024 ** 2;

/** Copies under way, which take space that is still free. */
export interface CopyLedger {
  /** Of all copies together. */
  readonly bytes: number;
  /**
   * Counts a copy for as long as the work takes.
   * @throws SandboxError resource_exhausted when the disk would not have enough left after it.
   */
  during<T>(path: string, bytes: number, work: () => Promise<T>): Promise<T>;
  /** What images were promised and the disk has not given them yet: whatever is written must leave it. */
  notePromised(bytes: number): void;
  /**
   * For what comes in pieces: whether the next one may be written.
   * @throws SandboxError resource_exhausted
   */
  requireSpaceLeft(path: string): Promise<void>;
  /**
   * Does work whose bytes are not known before, and ends it when the disk has too little left.
   * @throws SandboxError resource_exhausted, and what the work throws
   */
  whileSpaceLeft<T>(
    place: { readonly path: string; readonly signal: AbortSignal },
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T>;
}

/**
 * What the file system of a folder of the home has, or the store of the home where that has less above
 * its reserve: what is written to the store takes space of both.
 */
export async function readSpace(path: string): Promise<HostSpace> {
  const { bavail, blocks, bsize, type } = await statfs(path).catch(toHomeFault);
  const pendingBytes = type === BTRFS ? await readPendingBytes(path) : 0;
  const freeBytes = Math.max(bavail * bsize - pendingBytes, 0);
  const own = { freeBytes, totalBytes: blocks * bsize };
  const store = await readStoreSpace(path);
  if (store === undefined) return own;
  const left = { ...own, freeBytes: Math.max(own.freeBytes - store.unwrittenBytes, 0) };
  return aboveReserve(store) < aboveReserve(left) ? store : left;
}

/** The service made these folders at its start. */
function toHomeFault(error: unknown): never {
  if (!isCode(error, "ENOENT")) throw error;
  throw new SandboxError("unavailable", "the home of the service was removed or renamed", {
    cause: error,
    hint: "put it back as it was, or restart the service",
  });
}

function aboveReserve({ freeBytes, totalBytes }: HostSpace): number {
  return freeBytes - reserveOf(totalBytes);
}

/**
 * The fault that a client can do something about, where a disk became full half way or the home is
 * gone. It never rejects: clean-up comes after it.
 */
export async function toDiskFault(error: unknown, path: string): Promise<unknown> {
  try {
    return (await isFull(path)) ? diskFullError(`disk of ${path}`, error) : error;
  } catch (fault) {
    return fault instanceof SandboxError ? fault : error;
  }
}

/** The same of a copy, whose files are removed before the disk is looked at: what it said counts. */
export async function toCopyFault(error: unknown, path: string): Promise<unknown> {
  if (!COPY_FULL_PATTERN.test(errorText(error))) return toDiskFault(error, path);
  return diskFullError(`disk of ${path}`, error);
}

async function isFull(path: string): Promise<boolean> {
  const { freeBytes } = await readSpace(path);
  return freeBytes < FULL_BYTES || (await readFreeInodes(path)) < FULL_INODES;
}

/** Of the file system of a folder of the home; without end where it makes them as they are needed. */
async function readFreeInodes(path: string): Promise<number> {
  const { files, ffree } = await statfs(path).catch(toHomeFault);
  return files === 0 ? Infinity : ffree;
}

/** @throws SandboxError resource_exhausted when less than the reserve is free. */
export async function requireDiskSpace(path: string, word?: ErrorWord): Promise<void> {
  const { freeBytes, totalBytes } = await readSpace(path);
  const reserve = reserveOf(totalBytes);
  if (freeBytes < reserve) {
    const left = `${toMb(freeBytes)} MiB left of the ${toMb(reserve)} MiB`;
    throw diskFullError(`disk of ${path} has ${left} that are kept free`, undefined, word);
  }
  const inodes = await readFreeInodes(path);
  if (inodes >= RESERVED_INODES) return;
  const left = `${inodes} inodes left of the ${RESERVED_INODES}`;
  throw diskFullError(`disk of ${path} has ${left} that are kept free`, undefined, word);
}

export function createCopyLedger(): CopyLedger {
  let taken = 0;
  let promised = 0;

  /** What may be written before the floor; less than 0 is no space at all. */
  async function readLeft(path: string): Promise<{ leftBytes: number; floorBytes: number }> {
    const { freeBytes, totalBytes } = await readSpace(path);
    return { leftBytes: freeBytes - taken - promised, floorBytes: copyFloorOf(totalBytes) };
  }

  async function requireSpaceLeft(path: string): Promise<void> {
    const { leftBytes, floorBytes } = await readLeft(path);
    if (leftBytes >= floorBytes) return;
    throw diskFullError(`disk of ${path} has ${toMb(leftBytes)} MiB left`);
  }

  return {
    get bytes() {
      return taken;
    },
    async during(path, bytes, work) {
      await requireDiskSpace(path);
      const { leftBytes, floorBytes } = await readLeft(path);
      if (leftBytes - bytes < floorBytes) {
        const subject = `disk of ${path} has ${toMb(leftBytes)} MiB left for a copy of ${toMb(bytes)} MiB`;
        throw diskFullError(subject);
      }
      taken += bytes;
      try {
        return await work();
      } finally {
        taken -= bytes;
      }
    },
    notePromised(bytes) {
      promised = bytes;
    },
    requireSpaceLeft,
    whileSpaceLeft: async ({ path, signal }, work) =>
      whileSpaceLeft({ signal, requireSpaceLeft: async () => requireSpaceLeft(path) }, work),
  };
}

function toMb(bytes: number): number {
  return Math.floor(Math.max(bytes, 0) / BYTES_PER_MB);
}

/** A fast disk takes some hundred megabytes in it. */
const LOOK_MS = 100;

interface DiskLooks {
  readonly signal: AbortSignal;
  /** Rejects when the disk has too little left. */
  readonly requireSpaceLeft: () => Promise<void>;
}

/**
 * Does work whose bytes are not known before, and ends it when the disk has too little left. Looks
 * before the work and while it goes on, one look at a time: on a disk that hangs, looks must not
 * wait for it by the thousand.
 * @throws what `requireSpaceLeft` and the work throw
 */
export async function whileSpaceLeft<T>(
  { signal, requireSpaceLeft }: DiskLooks,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  await requireSpaceLeft();
  const full = new AbortController();
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    await requireSpaceLeft().catch((error: unknown) => full.abort(error));
    isLooking = false;
  };
  // It never rejects.
  const timer = setInterval(() => void look(), LOOK_MS);
  try {
    return await work(anySignal([signal, full.signal]));
  } catch (error) {
    throw full.signal.aborted && !signal.aborted ? full.signal.reason : error;
  } finally {
    clearInterval(timer);
  }
}

/** The pieces of something that is written, with a look at the disk before each step of so many bytes. */
export async function* takeWhileSpaceLeft(
  chunks: AsyncIterable<Buffer>,
  stepBytes: number,
  requireSpace: () => Promise<void>,
): AsyncGenerator<Buffer> {
  let unchecked = stepBytes;
  for await (const chunk of chunks) {
    if (unchecked >= stepBytes) {
      await requireSpace();
      unchecked = 0;
    }
    unchecked += chunk.length;
    yield chunk;
  }
}
