/**
 * The store of a home: one sparse file with an XFS in it, mounted at `store`, for homes whose own file
 * system shares no blocks. Every service of the home holds the mounted folder open, and disks hold it
 * by their loop devices: the kernel counts its users, whatever becomes of them, and the last process that
 * ends unmounts it. One that is found mounted is used as it is.
 */

import { existsSync } from "node:fs";
import { open, realpath, rename, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorText, SandboxError } from "../../common/errors.ts";
import {
  draftOf,
  ifThere,
  isThere,
  listFolder,
  readKernelFile,
  syncFolder,
} from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { quoteWord } from "../../common/shell-word.ts";
import { step } from "../../common/steps.ts";
import { findProgram } from "../host/find-program.ts";
import { installCommand } from "../host/install-command.ts";
import { launcherCommand } from "../host/launcher.ts";
import { withLock } from "../host/lock.ts";
import { runProgram } from "../host/run-program.ts";
import { sharesBlocks } from "./disk-copy.ts";
import { splitDevice } from "./growing-disk.ts";
import { hasMount, holdMount, makeMountPoint, unmountUnheld } from "./mount-point.ts";
import { BYTES_PER_GB, growStore, type StoreSize } from "./store-growth.ts";

/** In a home: the file, and the folder where it is mounted. */
export const STORE_NAMES = { image: "store.img", mount: "store" } as const;
/** Folders in the store: of the disks of containers, and of those of volumes. */
const PLACES = { containers: "disks", volumes: "volumes" } as const;

const SECTOR_BYTES = 512;
/** Of the disk below; XFS may have larger ones, but not larger than its blocks. */
const MIN_SECTOR_BYTES = 512;
const MAX_SECTOR_BYTES = 4096;
/** Folders of containers and uploads are so deep in a home. */
const MAX_DEPTH = 4;
/** The log of a file system that was cut off is replayed first. */
const MOUNT_TIMEOUT_MS = 5 * 60_000;
const LEAVING = { timeoutMs: 2_000 } as const;
/** Gigabytes may have to reach a slow disk. */
const SYNC_TIMEOUT_MS = 10 * 60_000;

export interface StoreOptions {
  readonly home: string;
  readonly perlDirectory: string;
  /** How large the store is at least, in GiB; undefined makes none and lets none grow. */
  readonly sizeGb?: number | undefined;
}

export interface OpenStoreImage extends AsyncDisposable {
  /** Undefined where no size was asked for. */
  readonly size: StoreSize | undefined;
}

/**
 * Mounts the store of a home and holds it until disposed; one that was asked for is made first, and a
 * smaller one grows, also while others use it. A growth that fails is told by the size.
 * Undefined where there is none, and where the home needs none.
 * @throws SandboxError failed_precondition when it cannot be made or mounted
 */
export async function openStoreImage(options: StoreOptions): Promise<OpenStoreImage | undefined> {
  const { home, perlDirectory, sizeGb } = options;
  if (isRootless()) return undefined;
  const [image, mount] = [join(home, STORE_NAMES.image), join(home, STORE_NAMES.mount)];
  if (sizeGb === undefined && !(await isThere(image))) return undefined;
  const hold = await withLock({ home, name: "store" }, async () => {
    if ((await readBacking(home))?.endsWith(REMOVED)) {
      const removed = new Error(`${mount} is a store whose file was removed`);
      throw storeFault("store was not mounted", removed, `umount ${quoteWord(mount)}`);
    }
    if (!(await isThere(image))) {
      if (sizeGb === undefined || (await sharesBlocks(home))) return undefined;
      await makeImage(home, sizeGb);
    }
    if (!(await isMounted(home))) await mountImage(options);
    return holdMount(mount);
  });
  if (hold === undefined) return undefined;
  const store = { image, mount, perlDirectory };
  const size = sizeGb === undefined ? undefined : await growStore(store, sizeGb);
  return {
    size,
    async [Symbol.asyncDispose]() {
      await hold.close();
      await leave(home);
    },
  };
}

/** Whether a home has one, mounted or not. */
export function hasStoreImage(home: string): boolean {
  return existsSync(join(home, STORE_NAMES.image));
}

/** Where disks are made; undefined where each is in the folder of its container or volume. */
export async function findDisksFolder(
  home: string,
  of: keyof typeof PLACES = "containers",
): Promise<string | undefined> {
  if (isRootless() || !(await hasMount(home, STORE_NAMES.mount))) return undefined;
  return join(home, STORE_NAMES.mount, PLACES[of]);
}

type Place = NonNullable<Parameters<typeof findDisksFolder>[1]>;

/** Names of the containers or volumes that have one; none where no store is mounted. */
export async function listStoreDisks(home: string, of: Place): Promise<string[]> {
  const folder = await findDisksFolder(home, of);
  return folder === undefined ? [] : listFolder(folder);
}

/** Removes one that no container and no volume has; idempotent. */
export async function removeStoreDisk(home: string, of: Place, name: string): Promise<void> {
  const folder = await findDisksFolder(home, of);
  if (folder !== undefined) await removeTree(join(folder, name));
}

/** What the store has, as statfs(2) tells. */
export interface StoreSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** What its files were given and its image has not taken from the home's file system yet. */
  readonly unwrittenBytes: number;
}

/** Undefined where the home of this folder, a few steps above it, has no store that is mounted. */
export async function readStoreSpace(folder: string): Promise<StoreSpace | undefined> {
  const home = await findStoreHome(folder);
  if (home === undefined || (await findDisksFolder(home)) === undefined) return undefined;
  const { blocks, bfree, bsize } = await statfs(join(home, STORE_NAMES.mount));
  const image = await stat(join(home, STORE_NAMES.image));
  const unwrittenBytes = Math.max((blocks - bfree) * bsize - image.blocks * SECTOR_BYTES, 0);
  return { freeBytes: bfree * bsize, totalBytes: blocks * bsize, unwrittenBytes };
}

async function findStoreHome(folder: string): Promise<string | undefined> {
  let home = folder;
  for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
    home = dirname(home);
    if (await isThere(join(home, STORE_NAMES.image))) return home;
  }
  return undefined;
}

async function makeImage(home: string, sizeGb: number): Promise<void> {
  const image = join(home, STORE_NAMES.image);
  const draft = draftOf(image);
  try {
    await rm(draft, { force: true });
    const file = await open(draft, "wx", 0o600);
    try {
      await file.truncate(sizeGb * BYTES_PER_GB);
      const sectors = ["-s", `size=${await readSectorBytes(home)}`];
      await runProgram(["mkfs.xfs", "-q", "-K", "-m", "reflink=1", ...sectors, draft]);
      await file.sync();
    } finally {
      await file.close();
    }
    await step("store.formatted");
    await rename(draft, image);
    await syncFolder(home);
  } catch (error) {
    await rm(draft, { force: true });
    throw storeFault("store was not made", error, hintFor(sizeGb));
  }
  await step("store.made");
}

function hintFor(sizeGb: number): string {
  return findProgram("mkfs.xfs") === undefined
    ? installCommand()
    : `check that the disk of the home has space and takes a file of ${sizeGb} GiB, or choose a smaller --store-gb`;
}

/**
 * What the disk below a folder writes at once: with smaller sectors a store could not pass by the page
 * cache. The least where the kernel does not say, as for btrfs.
 */
async function readSectorBytes(folder: string): Promise<number> {
  const { major, minor } = splitDevice((await stat(folder)).dev);
  const device = `/sys/dev/block/${major}:${minor}`;
  // A partition has it in the folder of its disk.
  for (const place of [device, join(await realpath(device).catch(() => device), "..")]) {
    const bytes = Number(readKernelFile(join(place, "queue/logical_block_size")) ?? 0);
    if (bytes >= MIN_SECTOR_BYTES && bytes <= MAX_SECTOR_BYTES) return bytes;
  }
  return MIN_SECTOR_BYTES;
}

async function mountImage({ home, perlDirectory }: StoreOptions): Promise<void> {
  const image = join(home, STORE_NAMES.image);
  const mount = join(home, STORE_NAMES.mount);
  await makeMountPoint(mount);
  if (await hasMount(home, STORE_NAMES.mount)) {
    const foreign = new Error(`another file system is mounted at ${mount}`);
    throw storeFault("store was not mounted", foreign, `umount ${quoteWord(mount)}`);
  }
  const command = launcherCommand(perlDirectory, [["store", image, mount], ["exit"]]);
  try {
    await runProgram(command, { timeoutMs: MOUNT_TIMEOUT_MS });
  } catch (error) {
    throw storeFault("store was not mounted", error, repairCommand(image));
  }
  await step("store.mounted");
}

/** By a device with small sectors, since the disk of the home may have larger ones than the XFS. */
function repairCommand(image: string): string {
  return `d=$(losetup --find --show --sector-size ${SECTOR_BYTES} ${quoteWord(image)}) && xfs_repair $d; losetup --detach $d`;
}

/** The last one unmounts; while a service or a disk uses it, it stays. */
async function leave(home: string): Promise<void> {
  try {
    await syncStore(home);
  } finally {
    await unmountUnused(home);
  }
}

/** Where another mount namespace has a copy of the mount, an unmount brings nothing to the image. */
async function syncStore(home: string): Promise<void> {
  if (!(await isMounted(home))) return;
  try {
    await runProgram(["sync", "-f", join(home, STORE_NAMES.mount)], { timeoutMs: SYNC_TIMEOUT_MS });
  } catch (error) {
    throw new SandboxError("unavailable", "last writes to the store were not stored", {
      cause: error,
      hint: "check the disk of the home",
    });
  }
}

async function unmountUnused(home: string): Promise<void> {
  await withLock({ home, name: "store", ...LEAVING }, async () => {
    // One who comes later unmounts what is still in use.
    if (await isMounted(home)) await unmountUnheld(join(home, STORE_NAMES.mount));
  }).catch(() => undefined);
}

/** The name of the file that is mounted there, as the kernel has it. */
async function readBacking(home: string): Promise<string | undefined> {
  if (!(await hasMount(home, STORE_NAMES.mount))) return undefined;
  const { major, minor } = splitDevice((await stat(join(home, STORE_NAMES.mount))).dev);
  return readKernelFile(`/sys/dev/block/${major}:${minor}/loop/backing_file`)?.trimEnd();
}

/** What the kernel puts behind the name of a file that has none any more. */
const REMOVED = " (deleted)";

/** Whether the store itself is what is mounted there. */
async function isMounted(home: string): Promise<boolean> {
  const name = await readBacking(home);
  if (name === undefined) return false;
  // The name of a file that was removed, or that another namespace has, leads nowhere.
  const file = await ifThere(stat(name));
  const image = await ifThere(stat(join(home, STORE_NAMES.image)));
  return file === undefined || (file.ino === image?.ino && file.dev === image.dev);
}

function storeFault(what: string, cause: unknown, hint: string): SandboxError {
  return new SandboxError("failed_precondition", `${what}: ${errorText(cause)}`, { cause, hint });
}
