/** Paths of the daemon that only the host may call, in every spelling. */

import { posix } from "node:path";
import { CONTROL_PATHS } from "../wire/headers.ts";

/** The reserved path that a target means once it is decoded and cleaned; undefined for others. */
export function findReservedPath(target: string): string | undefined {
  const [path = ""] = target.split("?", 1);
  const cleaned = posix.normalize(`/${decode(path)}`).replace(/(?<=.)\/+$/, "");
  return CONTROL_PATHS.find((reserved) => cleaned === reserved);
}

function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch (error) {
    // What does not decode is no path of the daemon either.
    if (error instanceof URIError) return path;
    throw error;
  }
}
