/**
 * How a disk image grows on the host's disk, and where its growth ends. An image is sparse: what a
 * program writes takes space on the host only when the kernel writes it back, after `write` has
 * succeeded. ext4 refuses allocations that would leave fewer free blocks than `reserved_clusters`
 * (sysfs), already at `write`, so a limit set there bounds what the host may still have to take.
 */

import { readlinkSync, statfsSync, statSync, writeFileSync, type StatsFs } from "node:fs";
import { basename, join } from "node:path";
import { isCode } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import type { DiskGrowth, GrowingDisk } from "../engine.ts";
import { runProgram } from "../host/run-program.ts";

/** Of the kernel: a folder for each file system, and in it the blocks that no allocation may take. */
const FILE_SYSTEMS = "/sys/fs/ext4";
const RESERVED = "reserved_clusters";
const SECTOR_BYTES = 512;
const LOOP_MAJOR = 7;
/** An inode table is written where inodes are used; no count of blocks has it. */
const INODE_BYTES = 256;
/** What ext4 reserves by itself: a fiftieth, at most so many blocks. */
const OWN_RESERVE = { share: 0.02, blocks: 4096 } as const;

/**
 * The disk of an image that is, or will be, mounted at `mount`. `ownBytes` is what its file system
 * writes for itself sooner or later and counts as no file: its journal.
 */
export function openGrowingDisk(
  image: string,
  mount: string,
  ownBytes = 0,
): Omit<GrowingDisk, "sharesBlocks"> {
  return {
    readGrowth() {
      const growth = readGrowth(image, mount);
      return growth && { ...growth, usedBytes: growth.usedBytes + ownBytes };
    },
    limitGrowth: (bytes) => limitGrowth(image, mount, bytes),
    isLimited: () => readLimit(image, mount) !== undefined,
    async returnFreedBlocks(isOn) {
      if (findDevice(image, mount) === undefined) return;
      await runProgram(["mount", "-o", `remount,${isOn ? "discard" : "nodiscard"}`, mount]);
      if (isOn) await runProgram(["fstrim", mount]);
    },
  };
}

function readGrowth(image: string, mount: string): DiskGrowth | undefined {
  const found = readSpaceOf(image, mount);
  if (found === undefined) return undefined;
  const { blocks, bfree, bsize, files, ffree } = found.space;
  return {
    // Blocks that are only promised to pages in memory count as used.
    usedBytes: (blocks - bfree) * bsize + (files - ffree) * INODE_BYTES,
    hostBytes: statSync(image).blocks * SECTOR_BYTES,
  };
}

/** @returns whether the kernel took it. */
function limitGrowth(image: string, mount: string, bytes: number | undefined): boolean {
  const found = readSpaceOf(image, mount);
  if (found === undefined) return false;
  const { device, space } = found;
  const { blocks, bfree, bsize } = space;
  const left = bytes === undefined ? bfree : Math.floor(bytes / bsize);
  const reserved = Math.max(bfree - left, ownReserveOf(blocks));
  try {
    writeFileSync(join(FILE_SYSTEMS, device, RESERVED), String(reserved));
    return true;
  } catch (error) {
    // In some containers sysfs cannot be written to; a disk may just have been unmounted.
    if (isCode(error, "EACCES", "EPERM", "EROFS", "ENOENT", "EINVAL")) return false;
    throw error;
  }
}

/** By how much it may grow, whichever process said so; undefined where no limit is set. */
export function readLimit(image: string, mount: string): number | undefined {
  const found = readSpaceOf(image, mount);
  if (found === undefined) return undefined;
  const { device, space } = found;
  const { bfree, bsize } = space;
  const reserved = Number(readKernelFile(join(FILE_SYSTEMS, device, RESERVED)) ?? 0);
  if (reserved <= ownReserveOf(statSync(image).size / bsize)) return undefined;
  return Math.max(bfree - reserved, 0) * bsize;
}

function ownReserveOf(blocks: number): number {
  return Math.min(Math.floor(blocks * OWN_RESERVE.share), OWN_RESERVE.blocks);
}

/**
 * What the file system of the image has. Undefined also for one that another process unmounts at this
 * moment: the folder has the numbers of the host's whole disk then.
 */
function readSpaceOf(
  image: string,
  mount: string,
): { readonly device: string; readonly space: StatsFs } | undefined {
  const found = findDevice(image, mount);
  if (found === undefined) return undefined;
  const space = statfsSync(mount);
  const { dev } = statSync(mount, { throwIfNoEntry: false }) ?? {};
  return dev === found.dev ? { device: found.name, space } : undefined;
}

/** The loop device that is mounted there; undefined when it is none of this image. */
function findDevice(
  image: string,
  mount: string,
): { readonly name: string; readonly dev: number } | undefined {
  const { dev } = statSync(mount, { throwIfNoEntry: false }) ?? {};
  if (dev === undefined) return undefined;
  const { major, minor } = splitDevice(dev);
  if (major !== LOOP_MAJOR) return undefined;
  const folder = `/sys/dev/block/${major}:${minor}`;
  const backing = readKernelFile(join(folder, "loop/backing_file"))?.trimEnd();
  // The kernel names it by its real path; an unmounted folder may lie on a loop device too.
  const name = join(basename(join(image, "..")), basename(image));
  if (backing?.endsWith(`/${name}`) !== true) return undefined;
  return { name: basename(readlinkSync(folder)), dev };
}

/** As makedev(3) of Linux has it. */
export function splitDevice(dev: number): { readonly major: number; readonly minor: number } {
  const low = dev % 2 ** 20;
  const high = Math.floor(dev / 2 ** 20);
  return { major: Math.floor(low / 2 ** 8) % 2 ** 12, minor: (low % 2 ** 8) + high * 2 ** 8 };
}
