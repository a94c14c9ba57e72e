/**
 * Space of a Btrfs that is taken and still reported as free: `statfs` counts what is written to a file
 * only with the commit of its transaction, half a minute later, although the file has the blocks at once.
 */

import { readdir, realpath } from "node:fs/promises";
import { basename, join } from "node:path";
import { readKernelFile } from "../../common/files.ts";
import { type MountEntry, readMounts } from "../host/mount-table.ts";

/** What `statfs` reports as the type. */
export const BTRFS = 0x9123683e;

/** Of the kernel: a folder for each file system, by its id. */
const KERNEL_FOLDER = "/sys/fs/btrfs";
/** Of data, or of data and metadata together on a small file system: waiting, and being written. */
const GROUPS = ["data", "mixed"] as const;
const COUNTERS = ["bytes_may_use", "bytes_reserved"] as const;

/** By path: a home stays on its file system, and this is asked up to 40 times a second. */
const known = new Map<string, string>();

interface Kernel {
  readonly kernel: string;
  readonly readMounts: () => Promise<readonly MountEntry[]>;
}

/** Of the file system that a folder is on; none where the kernel does not say which it is. */
export async function readPendingBytes(
  path: string,
  from: Kernel = { kernel: KERNEL_FOLDER, readMounts },
): Promise<number> {
  const folder = known.get(path) ?? (await findFileSystem(path, from));
  if (folder === undefined) return 0;
  known.set(path, folder);
  const values = GROUPS.flatMap((group) =>
    COUNTERS.map((name) => Number(readKernelFile(join(folder, "allocation", group, name)) ?? 0)),
  );
  return values.reduce((sum, bytes) => sum + bytes, 0);
}

async function findFileSystem(path: string, from: Kernel): Promise<string | undefined> {
  const place = await realpath(path);
  const isAbove = ({ target }: MountEntry) =>
    target === "/" || place === target || place.startsWith(`${target}/`);
  const mount = (await from.readMounts())
    .filter(({ type }) => type === "btrfs")
    .filter(isAbove)
    .toSorted((one, other) => other.target.length - one.target.length)[0];
  if (mount === undefined) return undefined;
  // A name of the device mapper is a link; in a container there may be no such file at all.
  const device = basename(await realpath(mount.source).catch(() => mount.source));
  for (const id of await listFolder(from.kernel)) {
    const devices = await listFolder(join(from.kernel, id, "devices"));
    if (devices.includes(device)) return join(from.kernel, id);
  }
  return undefined;
}

async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch {
    return [];
  }
}
