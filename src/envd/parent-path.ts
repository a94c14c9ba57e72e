/**
 * What `..` of a path means: the parent of the directory that the path before it leads to. Text alone
 * may not decide it, because after a link that parent is the one of the link's target.
 */

import { posix } from "node:path";
import { causeCode } from "../common/errors.ts";
import { lstat } from "./file-system.ts";

/** The kernel takes no longer path, whose bytes may be four characters each on the wire. */
export const MAX_PATH_CHARACTERS = 16_384;

/**
 * The same place without `.`, empty names, a slash at the end, and each `..` after a directory. One
 * after a name that is not there goes too, because nothing could be meant but the text; one after a
 * link or a file stays, for the kernel to resolve or to refuse.
 */
export async function tidyPath(path: string): Promise<string> {
  if (path.length > MAX_PATH_CHARACTERS) return path;
  let place = "";
  for (const name of path.split("/")) {
    if (name === "" || name === ".") continue;
    if (name !== "..") place += `/${name}`;
    else if (await mayDrop(place)) place = place.slice(0, place.lastIndexOf("/"));
    else place += "/..";
  }
  return place === "" ? "/" : place;
}

/** Whether a path can lead to a directory alone, as one does that ends in a slash, `.` or `..`. */
export function namesDirectory(path: string): boolean {
  return /(?:^|\/)\.{0,2}$/.test(path);
}

/** The directory that must exist before a path can: for one that names a directory, it is that one. */
export async function parentPlace(path: string): Promise<string> {
  const place = await tidyPath(path);
  return namesDirectory(path) ? place : posix.dirname(place);
}

/** Where a path stands once its parents are made: the kernel finds none where a name before `..` is missing. */
export async function writtenPlace(path: string): Promise<string> {
  return namesDirectory(path) ? path : tidyPath(path);
}

/** Whether the parent of a place is its text without the last name. */
async function mayDrop(place: string): Promise<boolean> {
  if (place === "") return true;
  if (place.endsWith("/..")) return false;
  try {
    return (await lstat(place)).isDirectory();
  } catch (error) {
    const code = causeCode(error);
    if (code === undefined) throw error;
    return code === "ENOENT";
  }
}
