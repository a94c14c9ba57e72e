/** A home on a disk of its own that is small enough to be filled. */

import { execFile } from "node:child_process";
import { rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { detachCopies } from "../../../src/engine/storage/mount-point.ts";
import type { TestHome } from "../home.ts";
import { copyBase, openImageDisk } from "./image-disk.ts";

const run = promisify(execFile);
/** The service begins nothing with less than 1 GiB; the rest is for the base template. */
const SIZE_BYTES = 3 * 1024 ** 3;

/** What a file system may want for itself when a large file is made. */
const RESERVE_BYTES = 8 * 1024 * 1024;

const RELEASE_MS = 10_000;

export interface SmallDisk extends TestHome {
  /** Leaves only so many bytes. */
  fill(leftBytes: number): Promise<void>;
  free(): Promise<void>;
  /** Reads everything from its image again: nothing may use it meanwhile. */
  remount(): Promise<void>;
}

/** Mounts it, with the base template in it. */
export async function openSmallDisk(): Promise<SmallDisk> {
  await using stack = new AsyncDisposableStack();
  const format = ["mkfs.ext4", "-q", "-F", "-m", "0"] as const;
  const { path, image } = stack.use(await openImageDisk(SIZE_BYTES, format));
  await copyBase(path);
  // No part of the home, which nothing else may be in.
  const ballast = join(path, "lost+found", "ballast");
  const owned = stack.move();
  return {
    path,
    async fill(leftBytes) {
      // What is only in memory will want space too.
      await run("sync", ["-f", path]);
      const { bavail, bsize } = await statfs(path);
      const bytes = bavail * bsize - Math.max(leftBytes, RESERVE_BYTES);
      await run("fallocate", ["-l", String(bytes), ballast]);
      // The last blocks go one by one, until there is none.
      const rest = ["if=/dev/zero", `of=${ballast}.rest`, "bs=4096"];
      if (leftBytes === 0) await expectFailure(run("dd", rest));
    },
    async free() {
      for (const end of ["", ".rest"]) await rm(ballast + end, { force: true });
    },
    async remount() {
      // Volumes are mounted below it; the kernel lets go of their images a moment after an unmount.
      const unmount = async () => run("umount", ["-R", path]);
      await expect.poll(async () => unmount().then(String), { timeout: RELEASE_MS }).toBeTruthy();
      // The pages of a file system that is mounted elsewhere would not be read again.
      await detachCopies(path);
      await run("dd", [`if=${image}`, "iflag=nocache", "count=0", "status=none"]);
      await run("mount", ["-o", "loop", image, path]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function expectFailure(work: Promise<unknown>): Promise<void> {
  const failed = await work.then(
    () => false,
    () => true,
  );
  if (!failed) throw new Error("there was no end of the disk");
}
