/** Templates are made by commands, too, only while the disk of the home has its reserve. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LAYERS } from "../engine/storage/layers.ts";
import { createCopyLedger, requireDiskSpace } from "../sandboxes/disk-space.ts";

interface DiskUse {
  readonly home: string;
  readonly signal: AbortSignal;
}

/**
 * Does work whose bytes are not known before, and ends it when the disk has too little left.
 * @throws SandboxError resource_exhausted, and what the work throws
 */
export async function withDiskSpace<T>(
  { home, signal }: DiskUse,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const path = join(home, LAYERS);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await requireDiskSpace(path);
  return createCopyLedger().whileLeft({ path, signal }, work);
}
