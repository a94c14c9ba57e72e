/** A home on a disk of its own whose file system shares blocks between files. */

import { tmpdir } from "node:os";
import type { TestHome } from "../home.ts";
import { copyBase, openImageDisk } from "./image-disk.ts";

/** Larger than the reserve of a service and what tests write. */
const SIZE_BYTES = 16 * 1024 ** 3;

/** What was removed takes no space of the image any more. */
const OPTIONS = "loop,discard";

/** Mounts an empty one, whose image lies in this folder. */
export async function openCloningDisk(parent = tmpdir()): Promise<TestHome> {
  const format = ["mkfs.xfs", "-q", "-K", "-m", "reflink=1"] as const;
  return openImageDisk(SIZE_BYTES, format, { options: OPTIONS, parent });
}

/** With the base template in it. */
export async function openCloningHome(): Promise<TestHome> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openCloningDisk());
  await copyBase(path);
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
