/** The folder of an instance, one service of a home: how it is taken and left. */

import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere, writeWhole } from "../../common/files.ts";
import type { Logger } from "../../common/log.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { holdLock, tryLock } from "../../engine/host/lock.ts";
import { newKey } from "../../sandboxes/keys.ts";
import {
  controlSocketPath,
  instanceDirectory,
  isAlive,
  listContainers,
} from "../../sandboxes/reclaim/instance-folder.ts";
import { forgetAddress } from "./serve-address.ts";

/** Of an instance with a fixed name, while it is taken or left. */
export const INSTANCE_LOCK = "instance";
const LEAVING = { timeoutMs: 2_000 } as const;
/** `--pause-to-disk exit` writes the memory of all paused sandboxes at the end of a service. */
const STOPPING_MS = 10 * 60_000;
const LOOK_EVERY_SECONDS = 1;

export interface HoldOptions {
  readonly log: Logger;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes this process the only one of its name, until it has left everything: one that stops takes no
 * connections any more, but still has the containers and their guardian.
 * @throws SandboxError failed_precondition when one runs, unavailable when one does not end, canceled
 */
export async function holdInstance(
  home: string,
  instance: string,
  { log, signal }: HoldOptions,
): Promise<AsyncDisposable> {
  const startedMs = performance.now();
  let isTold = false;
  while (performance.now() - startedMs < STOPPING_MS) {
    await requireNoOther(home, instance);
    const held = await tryLock(home, "service", LOOK_EVERY_SECONDS);
    if (held !== undefined) return held;
    if (!isTold) log.info({ op: "serve", instance }, "waiting for an earlier process that stops");
    isTold = true;
    if (signal?.aborted) {
      throw new SandboxError("canceled", `no longer waiting for instance ${instance} in ${home}`);
    }
  }
  throw new SandboxError("unavailable", `instance ${instance} in ${home} has not ended`, {
    hint: "end its process, or use another --home",
  });
}

/** Makes the folder of the instance and its key. */
export async function claimInstance(home: string, instance: string): Promise<string> {
  const directory = instanceDirectory(home, instance);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await requireNoOther(home, instance);
  // The address of an earlier process of this name, which was killed.
  await forgetAddress(home, instance);
  const path = join(directory, "token");
  // Kept over a restart: a client of this listener goes on with the key that it read.
  const known = await readIfThere(path);
  if (known !== undefined && known !== "") return known;
  const key = newKey();
  await writeWhole(path, key);
  return key;
}

async function requireNoOther(home: string, instance: string): Promise<void> {
  if (!(await isAlive(home, instance))) return;
  throw new SandboxError("failed_precondition", `instance ${instance} runs already in ${home}`, {
    hint: "stop it, or use another --home",
  });
}

/**
 * Removes the folder, unless sandboxes of the instance are still in it, or another process that has
 * its name by now.
 */
export async function leaveInstance(
  home: string,
  instance: string,
  isNamed: boolean,
): Promise<void> {
  // A process that keeps the lock must not hold up this end: a later clean-up removes what is left.
  const claim = isNamed
    ? await holdLock(home, INSTANCE_LOCK, LEAVING).catch(() => undefined)
    : undefined;
  try {
    if ((isNamed && claim === undefined) || (await isAlive(home, instance))) return;
    await rm(controlSocketPath(home, instance), { force: true });
    if ((await listContainers(home, instance)).length > 0) return;
    await removeTree(instanceDirectory(home, instance));
  } finally {
    await claim?.[Symbol.asyncDispose]();
  }
}
