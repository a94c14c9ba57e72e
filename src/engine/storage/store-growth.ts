/**
 * Growth of a store: its file, its loop device and its XFS become larger while services and disks use
 * them. The XFS never exceeds the file, so a growth that is cut off leaves a store that mounts, and the
 * next growth continues from what it finds.
 */

import { open, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { COPY_FULL_PATTERN, errorText, isCode, SandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { launcherCommand } from "../host/launcher.ts";
import { withLock } from "../host/lock.ts";
import { runProgram } from "../host/run-program.ts";

export const BYTES_PER_GB: number = 1024 ** 3;
/** mkfs.xfs makes no allocation group that is smaller, and so may leave less than this unused. */
const MIN_GROUP_BYTES = 16 * 1024 ** 2;
/** Each mount reads the headers of all groups, whose size never changes, in its time limit. */
const MAX_GROUPS = 16_384;
/**
 * Each step holds the lock `store`, for which other starts wait for a minute at most: 8,000 groups took
 * 12 s on a busy machine.
 */
const GROUPS_AT_ONCE = 1_024;
/** The headers of new groups may have to reach a slow disk. */
const GROWTH_TIMEOUT_MS = 5 * 60_000;
const SMALLER = "choose a smaller --store-gb";

export interface MountedStore {
  readonly image: string;
  readonly mount: string;
  readonly perlDirectory: string;
}

/** How large a store is once it is open. */
export interface StoreSize {
  /** Of the XFS, in GiB, to a tenth; undefined where it cannot be read. */
  readonly sizeGb: number | undefined;
  /** Why it is smaller than was asked for; its message and hint quote no other program. */
  readonly fault?: SandboxError;
}

/** What the kernel reports of a mounted store. */
interface Geometry {
  readonly bytes: number;
  readonly groupBytes: number;
}

/**
 * Makes a store at least so large, in GiB; a larger one keeps its size. The caller holds the mounted
 * store, and not the lock `store`, which others get between the steps of a growth. A growth that fails is
 * returned, and never thrown: the store is used with the size that it has.
 */
export async function growStore(store: MountedStore, wantedGb: number): Promise<StoreSize> {
  try {
    return await growOrKeep(store, wantedGb);
  } catch (cause) {
    const hint = "see the log, and check the disk of the home";
    const fault = new SandboxError("unavailable", "its size cannot be read", { cause, hint });
    return { sizeGb: undefined, fault };
  }
}

/** @throws the fault of the disk when the size of the store cannot be read */
async function growOrKeep(store: MountedStore, wantedGb: number): Promise<StoreSize> {
  const before = await readGeometry(store);
  const plan = planGrowth(before, wantedGb);
  const sizeGb = toGb(before.bytes);
  if (plan === "keep") return { sizeGb };
  if (plan !== "grow") return { sizeGb, fault: plan };
  const fault = await tryGrow(store, before, wantedGb);
  const after = await readGeometry(store);
  if (fault === undefined || isFilled(after, wantedGb)) return { sizeGb: toGb(after.bytes) };
  return { sizeGb: toGb(after.bytes), fault };
}

/** What a start that asks for so many GiB does with a store; a fault where it cannot have them. */
export function planGrowth(store: Geometry, wantedGb: number): "keep" | "grow" | SandboxError {
  if (isFilled(store, wantedGb)) return "keep";
  const mostGb = Math.floor((store.groupBytes * MAX_GROUPS) / BYTES_PER_GB);
  if (wantedGb <= mostGb) return "grow";
  const reason = `the store can grow to ${mostGb} GiB at most`;
  return new SandboxError("failed_precondition", reason, { hint: SMALLER });
}

function isFilled({ bytes }: Geometry, wantedGb: number): boolean {
  return wantedGb * BYTES_PER_GB - bytes < MIN_GROUP_BYTES;
}

function toGb(bytes: number): number {
  return Math.round((bytes / BYTES_PER_GB) * 10) / 10;
}

/** Offsets in the superblock of an XFS, whose numbers have the highest byte first. */
const SUPERBLOCK = { groupBlocks: 84, logBlocks: 96, bytes: 104 } as const;

/** The superblock in the file may be older than a growth; what is read of it never changes. */
async function readGeometry({ image, mount }: MountedStore): Promise<Geometry> {
  await using file = await open(image, "r");
  const superblock = Buffer.alloc(SUPERBLOCK.bytes);
  await file.read(superblock, 0, superblock.length, 0);
  const { blocks, bsize } = await statfs(mount);
  // The log does not count as space of files.
  const logBlocks = superblock.readUInt32BE(SUPERBLOCK.logBlocks);
  const groupBlocks = superblock.readUInt32BE(SUPERBLOCK.groupBlocks);
  return { bytes: (blocks + logBlocks) * bsize, groupBytes: groupBlocks * bsize };
}

async function tryGrow(
  store: MountedStore,
  { bytes: before, groupBytes }: Geometry,
  wantedGb: number,
): Promise<SandboxError | undefined> {
  const wanted = wantedGb * BYTES_PER_GB;
  const inTurn = { home: dirname(store.image), name: "store" } as const;
  try {
    await withLock(inTurn, async () => {
      // Refused where another file system is mounted over the store, before the file is extended.
      await growFileSystem(store, 0);
      await extendFile(store.image, wanted);
    });
    for (let bytes = before; bytes < wanted;) {
      bytes = Math.min(bytes + GROUPS_AT_ONCE * groupBytes, wanted);
      const next = bytes;
      await withLock(inTurn, () => growFileSystem(store, next));
      await step("store.grown");
    }
    return undefined;
  } catch (error) {
    return toGrowthFault(error, wantedGb);
  }
}

/** The file has its size on the disk of the home before the log of the XFS speaks of a larger one. */
async function extendFile(image: string, bytes: number): Promise<void> {
  await using file = await open(image, "r+");
  const { size } = await file.stat();
  if (size < bytes) await file.truncate(bytes);
  // Also of one that was cut off here.
  await file.sync();
  await step("store.extended");
}

/** To 0 bytes it only looks whether the store is mounted there. */
async function growFileSystem(
  { image, mount, perlDirectory }: MountedStore,
  bytes: number,
): Promise<void> {
  const steps = [["grow", image, mount, String(bytes)], ["exit"]] as const;
  await runProgram(launcherCommand(perlDirectory, steps), { timeoutMs: GROWTH_TIMEOUT_MS });
}

function toGrowthFault(cause: unknown, wantedGb: number): SandboxError {
  if (isCode(cause, "EFBIG")) {
    return new SandboxError("failed_precondition", `the home takes no file of ${wantedGb} GiB`, {
      cause,
      hint: SMALLER,
    });
  }
  if (isCode(cause, "ENOSPC", "EDQUOT") || COPY_FULL_PATTERN.test(errorText(cause))) {
    return new SandboxError("resource_exhausted", "the disk of the home is full", {
      cause,
      hint: "free space there, then restart the service",
    });
  }
  return new SandboxError("unavailable", "the growth failed", {
    cause,
    hint: "see the log, check the disk of the home, then restart the service",
  });
}
