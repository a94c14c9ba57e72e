/** Which file systems the kernel cannot mount with other user ids: sandboxes use theirs so. */

import { statfs } from "node:fs/promises";
import { causeCode } from "../../common/errors.ts";
import { isRootless } from "../../common/privilege.ts";

/**
 * Those that no kernel so far mounts so, by the magic number of statfs(2). Others are found out by
 * trying.
 */
const WITHOUT_ID_MAPS: ReadonlyMap<number, string> = new Map([
  [0x794c7630, "overlay"],
  [0x6969, "nfs"],
  [0xfe534d42, "smb2"],
  [0xff534d42, "cifs"],
  [0x01021997, "9p"],
]);

/** The name of such a file system if the path lies on one; a path that is not there lies on none. */
export async function fileSystemWithoutIdMaps(path: string): Promise<string | undefined> {
  try {
    const { type } = await statfs(path);
    // The kernel's number has 32 bits, and may have come with a sign.
    return WITHOUT_ID_MAPS.get(type >>> 0);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Whether sandboxes can use this machine's `/usr`: its files can be shown with their ids by root alone,
 * and not where it lies on an overlay, as in a container.
 */
export async function canShareUsr(): Promise<boolean> {
  return !isRootless() && (await fileSystemWithoutIdMaps("/usr")) === undefined;
}
