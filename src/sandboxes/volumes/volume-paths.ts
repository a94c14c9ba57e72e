/**
 * Finds what a client names in a volume. Sandboxes change volumes meanwhile, so each component is
 * opened by itself, from the open folder above it, and never through a link of the kernel's making:
 * a link is read, and its target is resolved like a path of the client, from the top of the volume.
 */

import { constants } from "node:fs";
import { lstat, open, readlink, type FileHandle } from "node:fs/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { fromSystemBytes, meantName, toSystemPath } from "../../common/file-names.ts";

const MAX_PATH_BYTES = 4_096;
/** As many folders deep as a path of this service goes; the kernel's own limit is that of its length. */
const MAX_COMPONENTS = 256;
/** Links and `..` on the way, each of which begins at the top again; the kernel follows 40 links. */
const MAX_RESTARTS = 40;

/** O_PATH, which Node does not name; it is the same on every architecture. */
const O_PATH = 0x20_0000;
const FOLDER_FLAGS = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** A name in an open folder; whether anything has the name is not said. */
export interface Place extends AsyncDisposable {
  readonly folder: FileHandle;
  /** Empty for the top of the volume. */
  readonly name: string;
  /** From the top of the volume, with a slash before each component. */
  readonly path: string;
  /** What the system is told; it ends with the folder. */
  readonly systemPath: string | Buffer;
}

/** The system's path of a name in an open folder. */
export function pathIn(folder: Pick<FileHandle, "fd">, name: string): string | Buffer {
  return toSystemPath(`${prefixOf(folder)}${name}`);
}

function prefixOf({ fd }: Pick<FileHandle, "fd">): string {
  return `/proc/self/fd/${fd}/`;
}

/** Opens a folder by its name in an open folder, never a link. @throws the system's error */
export function openFolderIn(folder: FileHandle, name: string): Promise<FileHandle> {
  return open(pathIn(folder, name), FOLDER_FLAGS);
}

export interface Walk {
  /** Whether a link at the end of the path is followed. */
  readonly followsLast: boolean;
  /** Makes a folder on the way that is missing; undefined where each must be there. */
  readonly makeMissing?: ((folder: FileHandle, name: string) => Promise<void>) | undefined;
}

/**
 * The place that a path means.
 * @throws SandboxError invalid_argument for a path that cannot be one, not_found
 */
export async function findPlace(root: string, path: string, options: Walk): Promise<Place> {
  let names = splitPath(path);
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts += 1) {
    const next = await walk(root, names, options);
    if (!Array.isArray(next)) return next;
    names = next;
  }
  throw new SandboxError("invalid_argument", "path has too many links");
}

/** The names on a path. @throws SandboxError invalid_argument for what cannot be one */
function splitPath(path: string): string[] {
  if (path.includes("\0")) throw new SandboxError("invalid_argument", "path contains NUL");
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new SandboxError("invalid_argument", `path exceeds ${MAX_PATH_BYTES} bytes`);
  }
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names.length <= MAX_COMPONENTS) return names;
  throw new SandboxError("invalid_argument", `path has more than ${MAX_COMPONENTS} components`);
}

/** The place, or the names to begin again with. */
async function walk(
  root: string,
  names: readonly string[],
  { followsLast, makeMissing }: Walk,
): Promise<Place | string[]> {
  let folder = await open(root, FOLDER_FLAGS);
  const found: string[] = [];
  try {
    for (const [index, given] of names.entries()) {
      const name = await meantName(prefixOf(folder), given);
      found.push(name);
      const done = names.slice(0, index);
      const rest = names.slice(index + 1);
      // Above the top is the top, as for a program whose root it is.
      if (name === "..") return await restart(folder, [...done.slice(0, -1), ...rest]);
      const isLast = rest.length === 0;
      const target = isLast && !followsLast ? undefined : await linkTarget(folder, name);
      if (target !== undefined) {
        const before = target.startsWith("/") ? [] : done;
        const link = splitPath([...before, ...splitPath(target), ...rest].join("/"));
        return await restart(folder, link);
      }
      if (isLast) return toPlace(folder, name, `/${found.join("/")}`);
      const next = await openOnWay(folder, name, makeMissing);
      await folder.close();
      folder = next;
    }
  } catch (error) {
    await folder.close().catch(() => undefined);
    throw error;
  }
  return toPlace(folder, "", "/");
}

async function openOnWay(
  folder: FileHandle,
  name: string,
  makeMissing: Walk["makeMissing"],
): Promise<FileHandle> {
  try {
    return await openFolderIn(folder, name);
  } catch (error) {
    if (makeMissing === undefined || !isCode(error, "ENOENT")) throw error;
    await makeMissing(folder, name);
    return openFolderIn(folder, name);
  }
}

async function restart(folder: FileHandle, names: string[]): Promise<string[]> {
  await folder.close();
  return names;
}

/** Undefined for what is no link. */
async function linkTarget(folder: FileHandle, name: string): Promise<string | undefined> {
  try {
    if (!(await lstat(pathIn(folder, name))).isSymbolicLink()) return undefined;
    return fromSystemBytes(await readlink(pathIn(folder, name), "buffer"));
  } catch (error) {
    // Nothing is there, or a link became something else: what opens it says so.
    if (isCode(error, "ENOENT", "EINVAL")) return undefined;
    throw error;
  }
}

function toPlace(folder: FileHandle, name: string, path: string): Place {
  const systemPath = pathIn(folder, name === "" ? "." : name);
  return { folder, name, path, systemPath, [Symbol.asyncDispose]: () => folder.close() };
}
