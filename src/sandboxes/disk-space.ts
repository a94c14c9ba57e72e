/** Whether the disk of the home has enough free space for something new. */

import { statfs } from "node:fs/promises";
import { diskFullError, type ErrorWord } from "../common/errors.ts";

/** Below this share nothing new begins: what runs must be able to end, and its end be recorded. */
const MIN_FREE_SHARE = 0.05;
const MIN_FREE_BYTES = 1024 ** 3;

/** With less than this, what fails fails for want of it. */
const FULL_BYTES = 16 * 1024 ** 2;

/** The fault that a client can do something about, where a disk became full half way. */
export async function toDiskFault(error: unknown, path: string): Promise<unknown> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize < FULL_BYTES ? diskFullError(`disk of ${path}`, error) : error;
}

/** @throws SandboxError resource_exhausted when less than 5 % or 1 GiB is free. */
export async function requireDiskSpace(path: string, word?: ErrorWord): Promise<void> {
  const { bavail, blocks, bsize } = await statfs(path);
  const freeBytes = bavail * bsize;
  if (freeBytes >= Math.max(blocks * bsize * MIN_FREE_SHARE, MIN_FREE_BYTES)) return;
  const subject = `disk of ${path} has ${Math.floor(freeBytes / 1024 ** 2)} MiB left`;
  throw diskFullError(subject, undefined, word);
}
