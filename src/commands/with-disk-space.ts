/** Templates are made by commands, too, only while the disk of the home has its reserve. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createSystemClock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import type { Config } from "../config.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { createCopyLedger } from "../sandboxes/disk-space.ts";
import { requireSpace } from "../sandboxes/template-builds/free-space.ts";
import { openStore } from "../store/sqlite.ts";

/** Of a command. */
interface DiskUse {
  readonly config: Pick<Config, "home">;
  readonly log: Logger;
}

/**
 * Does work whose bytes are not known before, and ends it when the disk has too little left. As where a
 * build begins, cached steps go where space is wanted.
 * @throws SandboxError resource_exhausted, and what the work throws
 */
export async function withDiskSpace<T>(
  { config: { home }, log }: DiskUse,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const path = join(home, LAYERS);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await makeSpace(home, log);
  return createCopyLedger().whileLeft({ path, signal }, work);
}

async function makeSpace(home: string, log: Logger): Promise<void> {
  using store = openStore({ path: join(home, "state.db") });
  const directory = join(home, LAYERS);
  const folders = { home, directory, layersDirectory: directory };
  // What cannot be removed is an orphan, which the next start or `gc` removes.
  const retry = () => undefined;
  await requireSpace({ store, log, retry, clock: createSystemClock(), ...folders });
}
