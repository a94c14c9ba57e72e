/**
 * Writes the memory of a paused container with a kernel of its own to a folder; it stays paused, and
 * goes on when it is resumed. Its kernel saves nothing while a connection of the host is joined to it.
 */

import assert from "node:assert";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "../../common/errors.ts";
import { syncFolder } from "../../common/files.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { runProgram } from "../host/run-program.ts";
import type { Connections } from "../network/connections.ts";
import { launcherCommand } from "../oci/launcher.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { FOLDER_NAMES } from "../oci/remove-container.ts";
import { makeWhole } from "../storage/layers.ts";
import { stageOf } from "../storage/rootfs.ts";
import { MEMORY_IMAGE, readPlace, sealImage } from "./memory-image.ts";

/** Gigabytes on a slow disk. */
const TIMEOUT_MS = 5 * 60_000;
/** Ends of connections take a moment to reach the kernel inside. */
const ATTEMPTS = 10;
const RETRY_MS = 50;
/** Of an image against the limit of memory. */
const SIZE_FACTOR = 2;
/** Where the launcher's mount namespace shows the runtime's state: the name of a socket is short. */
export const STATE = "state";

export interface MemorySource {
  readonly runtime: string;
  readonly flags: readonly string[];
  readonly id: string;
  /** The container's folder. */
  readonly directory: string;
  readonly perlDirectory: string;
  /** The name of the daemon's folder. */
  readonly daemon: string;
  readonly secret: string;
  readonly cgroup: Cgroup;
  readonly connections: Connections;
}

/** What `take` does while it copies files. */
export type OnFrozen = () => Promise<void>;

/**
 * Makes the folder `target` with the memory of the moment at which `take`, which copies the files,
 * calls back. It is there, whole and durable, after what `take` makes; not where that is undefined.
 * @throws SandboxError unavailable when the memory was not saved; the container goes on.
 */
export async function saveMemory<T>(
  source: MemorySource,
  target: string,
  take: (onFrozen: OnFrozen) => Promise<T>,
): Promise<T> {
  const { runtime, daemon, secret, cgroup, connections } = source;
  const nothing = new SandboxError("unimplemented", "files were not copied");
  let result: { readonly value: T } | undefined;
  const fill = async (draft: string) => {
    const place = await readPlace(runtime, daemon);
    const image = join(draft, MEMORY_IMAGE);
    const value = await take(async () => connections.whileCut(() => checkpoint(source, image)));
    result = { value };
    if (value === undefined) throw nothing;
    const limit = await cgroup.readMemoryLimit();
    await sealImage(draft, { ...place, secret }, SIZE_FACTOR * (limit ?? Infinity));
  };
  try {
    await makeWhole(target, { fill, sync: syncFolder });
  } catch (error) {
    if (error !== nothing) throw error;
  }
  assert(result !== undefined, "what fills the folder took it");
  return result.value;
}

/** Fills `folder`, which this call makes. The container is paused, and no connection is open. */
async function checkpoint(source: MemorySource, folder: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await mkdir(folder, { mode: 0o700 });
      await runCheckpoint(source, folder);
      await step("checkpoint.saved");
      return;
    } catch (error) {
      await removeTree(folder);
      const isLate = error instanceof SandboxError && error.code === "deadline_exceeded";
      if (isLate || attempt === ATTEMPTS) {
        throw new SandboxError("unavailable", "memory was not saved", { cause: error });
      }
      await sleep(RETRY_MS);
    }
  }
}

async function runCheckpoint(source: MemorySource, folder: string): Promise<void> {
  const { runtime, flags, id, directory, perlDirectory } = source;
  const stage = stageOf(directory).directory;
  const state = join(stage, STATE);
  const words = ["checkpoint", "--leave-running", "--compression=none", "--image-path", folder, id];
  const command = launcherCommand(perlDirectory, [
    ["isolate"],
    ["mount", "tmpfs", stage, "mode=0755,size=1m"],
    ["chdir", stage],
    ["mkdir", STATE],
    ["bind", join(directory, FOLDER_NAMES.runtime, STATE), STATE],
    ["exec", runtime, "--root", state, ...flags, ...words],
  ]);
  await runProgram(command, { timeoutMs: TIMEOUT_MS });
}
