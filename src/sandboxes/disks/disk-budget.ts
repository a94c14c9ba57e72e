/**
 * How much the disk images of sandboxes and volumes may still grow on the disk of the service, so
 * that the disk has space for every byte that a program was told is written.
 */

import type { DiskGrowth } from "../../engine/engine.ts";

/** Below this share, or these bytes, nothing new begins: what runs must be able to end. */
const RESERVE_SHARE = 0.05;
const MIN_RESERVE_BYTES = 1024 ** 3;
const COPY_FLOOR_SHARE = 0.5;

/**
 * Limits and pauses begin when this much of the reserve is left: on a large disk a share is hundreds
 * of gigabytes, and how fast programs write does not grow with the disk.
 */
const MAX_MARGIN_BYTES = 16 * 1024 ** 3;

/** Marks between the margin and a full disk, as shares of the margin. */
const MARKS = {
  /** Below it, what writes is paused. */
  pause: 0.5,
  /** Above it, what was paused goes on. */
  resume: 0.75,
  /** No growth is granted below it: for databases, logs, inode tables and metadata of the host. */
  floor: 0.25,
  /** Above it, limits are lifted again. */
  lift: 1.1,
} as const;

/** Disks that no program writes to are granted this share of the growth that is left, together. */
const IDLE_SHARE = 0.25;

/** Faster than programs of one machine fill its page cache. */
const MAX_BYTES_PER_MS = (4 * 1024 ** 3) / 1_000;
const MIN_LOOK_MS = 25;
const MAX_LOOK_MS = 2_000;
/** Where limits hold the kernel enforces them: looks find only what should be paused or go on. */
const MAX_LIMITED_LOOK_MS = 100;

/** What a file system has, as statfs(2) tells. */
export interface HostSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** One image that is mounted. */
export interface GrowingImage extends DiskGrowth {
  readonly name: string;
  /** Whether files grew a moment ago. */
  readonly isGrowing: boolean;
}

/** Images that other services of the home watch, and those that no service does any more. */
export interface OtherImages {
  /** How many services they are of. */
  readonly services: number;
  readonly promisedBytes: number;
  /** How much they may still grow by the limits that hold. */
  readonly grantedBytes: number;
}

export const NO_OTHERS: OtherImages = { services: 0, promisedBytes: 0, grantedBytes: 0 };

export interface DiskBudget {
  /** Bytes that are neither taken nor promised. */
  readonly spareBytes: number;
  /** To images, also those of others. */
  readonly promisedBytes: number;
  /** Whether growth is limited. */
  readonly isLimited: boolean;
  /** Whether what writes has to be paused. */
  readonly isFull: boolean;
  /** Whether one of those that were paused may go on. */
  readonly hasSpace: boolean;
  /** By name: how much each image may grow; empty while nothing is limited. */
  readonly limits: ReadonlyMap<string, number>;
}

/** Bytes below which nothing new begins. */
export function reserveOf(totalBytes: number): number {
  return Math.max(totalBytes * RESERVE_SHARE, MIN_RESERVE_BYTES);
}

/** Bytes that a copy must leave. */
export function copyFloorOf(totalBytes: number): number {
  return reserveOf(totalBytes) * COPY_FLOOR_SHARE;
}

/** Bytes below which growth is limited. */
function marginOf(totalBytes: number): number {
  return Math.min(reserveOf(totalBytes), MAX_MARGIN_BYTES);
}

/** Bytes of an image that the host's disk has not given yet. */
export function promisedOf({ usedBytes, hostBytes }: DiskGrowth): number {
  return Math.max(usedBytes - hostBytes, 0);
}

/**
 * Divides what is left. The sum of all limits and of what is promised already never exceeds what
 * the disk has above the floor, whatever other services of the home do.
 */
export function planBudget(
  space: HostSpace,
  images: readonly GrowingImage[],
  before: {
    readonly isLimited: boolean;
    readonly copyBytes: number;
    readonly others?: OtherImages;
  },
): DiskBudget {
  const margin = marginOf(space.totalBytes);
  const { copyBytes, others = NO_OTHERS } = before;
  const promisedBytes = promisedTo(images, others);
  const spareBytes = space.freeBytes - copyBytes - promisedBytes;
  const isLimited = spareBytes < margin * (before.isLimited ? MARKS.lift : 1);
  return {
    spareBytes,
    promisedBytes,
    isLimited,
    isFull: spareBytes < margin * MARKS.pause,
    hasSpace: spareBytes >= margin * MARKS.resume,
    limits: isLimited
      ? divide(shareOf(spareBytes - margin * MARKS.floor, others), images)
      : new Map(),
  };
}

function promisedTo(images: readonly GrowingImage[], { promisedBytes }: OtherImages): number {
  return images.reduce((sum, image) => sum + promisedOf(image), promisedBytes);
}

/** An equal part for each service, but nothing that another one has granted already. */
function shareOf(bytes: number, { services, grantedBytes }: OtherImages): number {
  return Math.min(bytes / (services + 1), bytes - grantedBytes);
}

function divide(bytes: number, images: readonly GrowingImage[]): ReadonlyMap<string, number> {
  const grantable = Math.max(bytes, 0);
  const growing = images.filter(({ isGrowing }) => isGrowing).length;
  const idle = images.length - growing;
  const idleBytes = growing === 0 ? grantable : grantable * IDLE_SHARE;
  const growingBytes = idle === 0 ? grantable : grantable - idleBytes;
  // One that is frozen counts too: it may be in the middle of a call, and it will go on.
  const share = ({ isGrowing }: GrowingImage) =>
    Math.floor(isGrowing ? growingBytes / growing : idleBytes / idle);
  return new Map(images.map((image) => [image.name, share(image)]));
}

/** As `planBudget`, for disks that no service will look at: limits that hold whatever happens. */
export function divideAll(
  space: HostSpace,
  images: readonly GrowingImage[],
  others: OtherImages = NO_OTHERS,
): ReadonlyMap<string, number> {
  const floor = marginOf(space.totalBytes) * MARKS.floor;
  const left = space.freeBytes - promisedTo(images, others) - floor;
  return divide(shareOf(left, others), images);
}

/** When to look again: before programs can have written what is left above the reserve. */
export function nextLookMs(
  space: HostSpace,
  budget: DiskBudget,
  looks: { readonly lastMs: number; readonly isGrowing: boolean },
): number {
  if (budget.isLimited) {
    return looks.isGrowing ? MIN_LOOK_MS : Math.min(looks.lastMs * 2, MAX_LIMITED_LOOK_MS);
  }
  const waitMs = (budget.spareBytes - marginOf(space.totalBytes)) / MAX_BYTES_PER_MS;
  return Math.min(Math.max(waitMs, MIN_LOOK_MS), MAX_LOOK_MS);
}
