/**
 * Where files cannot be shown with the ids of sandboxes: the kernel mounts no overlay with other ids.
 * Looked up at once, since a host waits for it: the first task of another thread takes 4 ms.
 */

import { statfsSync } from "node:fs";
import { isCode } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";

/** The magic number of statfs(2). */
const OVERLAY = 0x794c7630;

/** Whether the path lies on an overlay, as all of a container does; what is not there does not. */
export function isOnOverlay(path: string): boolean {
  try {
    return statfsSync(path).type === OVERLAY;
  } catch (error) {
    if (isCode(error, "ENOENT")) return false;
    throw error;
  }
}

/** Whether sandboxes can use this machine's `/usr`; only root shows its files with their ids. */
export function canShareUsr(): boolean {
  return !isRootless() && !isOnOverlay("/usr");
}
