/** A home on a disk of its own whose file system shares blocks between files. */

import type { TestHome } from "../home.ts";
import { copyBase, openImageDisk } from "./image-disk.ts";

/** Larger than the reserve of a service and what tests write. */
const SIZE_BYTES = 16 * 1024 ** 3;

/** Mounts an empty one. */
export async function openCloningDisk(): Promise<TestHome> {
  return openImageDisk(SIZE_BYTES, ["mkfs.xfs", "-q", "-K", "-m", "reflink=1"]);
}

/** With the base template in it. */
export async function openCloningHome(): Promise<TestHome> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openCloningDisk());
  await copyBase(path);
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
