/**
 * The bound of an image while it is written: a kernel inside that writes more than all of its memory
 * would fill the disk of the host before anyone looked at the image.
 */

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const LOOK_MS = 200;
const BLOCK_BYTES = 512;

/** Calls `end` once the files in the folder take more of the disk; looks until it is disposed of. */
export function watchImage(
  folder: string,
  limitBytes: number,
  end: () => Promise<void>,
): AsyncDisposable {
  const over = new AbortController();
  const watching = watch({ folder, limitBytes, signal: over.signal }, end);
  return {
    async [Symbol.asyncDispose]() {
      over.abort();
      await watching;
    },
  };
}

interface Watched {
  readonly folder: string;
  readonly limitBytes: number;
  readonly signal: AbortSignal;
}

/** It never rejects: what the end could not do the save finds. */
async function watch(
  { folder, limitBytes, signal }: Watched,
  end: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    // A look that fails says nothing.
    const bytes = await sizeOf(folder).catch(() => 0);
    if (bytes > limitBytes) return end().catch(() => undefined);
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) {
    bytes += (await lstat(join(folder, name))).blocks * BLOCK_BYTES;
  }
  return bytes;
}
