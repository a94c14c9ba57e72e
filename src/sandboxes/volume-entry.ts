/** One entry of a volume, with owners as a sandbox sees them. */

import type { BigIntStats } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { fromSystemBytes, toWirePath } from "../common/file-names.ts";
import { isRootless, storedId } from "../common/privilege.ts";
import type { Place } from "./volume-paths.ts";

const MODE_MASK = 0o7777n;

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

/** What the kernel says of a place. */
export async function toEntry(
  place: Pick<Place, "systemPath" | "name" | "path">,
): Promise<VolumeEntry> {
  const stats = await lstat(place.systemPath, { bigint: true });
  const type = typeOf(stats);
  return {
    name: toWirePath(place.name),
    type,
    path: toWirePath(place.path),
    sizeBytes: Number(stats.size),
    mode: Number(stats.mode & MODE_MASK),
    uid: shownId(stats.uid),
    gid: shownId(stats.gid),
    accessedAtMs: Number(stats.atimeMs),
    modifiedAtMs: Number(stats.mtimeMs),
    changedAtMs: Number(stats.ctimeMs),
    ...(type === "symlink" && { target: await readTarget(place.systemPath) }),
  };
}

async function readTarget(path: string | Buffer): Promise<string> {
  return toWirePath(fromSystemBytes(await readlink(path, "buffer")));
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
