/** Templates are made by commands, too, only while the disk of the home has its reserve. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createSystemClock } from "../../common/clock.ts";
import { createSilentLog } from "../../common/log.ts";
import { LAYERS } from "../../engine/storage/layers.ts";
import { createCopyLedger } from "../../sandboxes/disks/disk-space.ts";
import { requireSpace } from "../../sandboxes/template-builds/free-space.ts";
import { openStore } from "../../store/sqlite.ts";

interface DiskUse {
  readonly home: string;
  readonly signal: AbortSignal;
}

/**
 * Does work whose bytes are not known before, and ends it when the disk has too little left. As where a
 * build begins, cached steps go where space is wanted.
 * @throws SandboxError resource_exhausted, and what the work throws
 */
export async function withDiskSpace<T>(
  { home, signal }: DiskUse,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const path = join(home, LAYERS);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await makeSpace(home, path);
  return createCopyLedger().whileSpaceLeft({ path, signal }, work);
}

async function makeSpace(home: string, layersDirectory: string): Promise<void> {
  using store = openStore({ path: join(home, "state.db") });
  const place = { home, layersDirectory, directory: layersDirectory };
  await requireSpace({
    ...place,
    store,
    log: createSilentLog(),
    clock: createSystemClock(),
    // What cannot be removed is an orphan, which the next start or `gc` removes.
    retry: () => undefined,
  });
}
