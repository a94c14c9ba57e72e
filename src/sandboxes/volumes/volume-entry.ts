/** One entry of a volume, with owners as a sandbox sees them. */

import type { BigIntStats } from "node:fs";
import { lstat, readlink, type FileHandle } from "node:fs/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { fromSystemBytes, toWirePath } from "../../common/file-names.ts";
import { isRootless, storedId } from "../../common/privilege.ts";
import type { Place } from "./volume-paths.ts";

const MODE_MASK = 0o7777n;
/** At a link that a program replaces each time before it is read. */
const MAX_LOOKS = 20;

/** What the kernel knows of an entry. Names are as the wire tells them. */
export interface VolumeEntry {
  readonly name: string;
  readonly type: "file" | "directory" | "symlink" | "unknown";
  readonly path: string;
  readonly sizeBytes: number;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly accessedAtMs: number;
  readonly modifiedAtMs: number;
  readonly changedAtMs: number;
  /** Of a link. */
  readonly target?: string;
}

type NamedPlace = Pick<Place, "systemPath" | "name" | "path">;

/**
 * What the kernel says of a place.
 * @throws the system's error, and SandboxError failed_precondition for one that changes all the time
 */
export async function toEntry(place: NamedPlace): Promise<VolumeEntry> {
  for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
    const stats = await lstat(place.systemPath, { bigint: true });
    if (!stats.isSymbolicLink()) return describe(place, stats);
    const target = await readTarget(place.systemPath);
    if (target !== undefined) return { ...describe(place, stats), target };
  }
  throw new SandboxError("failed_precondition", "path changes all the time");
}

/** The same of the file or directory that is open there, whatever has its name by now. */
export async function toOpenEntry(place: NamedPlace, file: FileHandle): Promise<VolumeEntry> {
  return describe(place, await file.stat({ bigint: true }));
}

function describe(place: NamedPlace, stats: BigIntStats): VolumeEntry {
  return {
    name: toWirePath(place.name),
    type: typeOf(stats),
    path: toWirePath(place.path),
    sizeBytes: Number(stats.size),
    mode: Number(stats.mode & MODE_MASK),
    uid: shownId(stats.uid),
    gid: shownId(stats.gid),
    accessedAtMs: Number(stats.atimeMs),
    modifiedAtMs: Number(stats.mtimeMs),
    changedAtMs: Number(stats.ctimeMs),
  };
}

/** Undefined for what is no link any more. */
async function readTarget(path: string | Buffer): Promise<string | undefined> {
  try {
    return toWirePath(fromSystemBytes(await readlink(path, "buffer")));
  } catch (error) {
    if (isCode(error, "EINVAL")) return undefined;
    throw error;
  }
}

function typeOf(stats: BigIntStats): VolumeEntry["type"] {
  if (stats.isFile()) return "file";
  if (stats.isDirectory()) return "directory";
  return stats.isSymbolicLink() ? "symlink" : "unknown";
}

/** The id inside a sandbox of an id on disk. */
function shownId(id: bigint): number {
  return Math.max(Number(id) - (isRootless() ? storedId(0) : 0), 0);
}
