/** Where files cannot be shown with the ids of sandboxes: the kernel mounts no overlay with other ids. */

import { statfs } from "node:fs/promises";
import { isCode } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";

/** The magic number of statfs(2). */
const OVERLAY = 0x794c7630;

/** Whether the path lies on an overlay, as all of a container does; what is not there does not. */
export async function isOnOverlay(path: string): Promise<boolean> {
  try {
    return (await statfs(path)).type === OVERLAY;
  } catch (error) {
    if (isCode(error, "ENOENT")) return false;
    throw error;
  }
}

/** Whether sandboxes can use this machine's `/usr`; only root shows its files with their ids. */
export async function canShareUsr(): Promise<boolean> {
  return !isRootless() && !(await isOnOverlay("/usr"));
}
