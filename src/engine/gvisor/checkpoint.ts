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
import type { ImageKeys } from "./image-seal.ts";
import { MEMORY_IMAGE, readPlace, sealImage, type TakenImage } from "./memory-image.ts";
import { createTaker, type ImageTaker } from "./take-image.ts";
import { watchImage } from "./watch-image.ts";

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
  readonly keys: ImageKeys;
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
    const limitBytes = SIZE_FACTOR * ((await cgroup.readMemoryLimit()) ?? Infinity);
    const image = { folder: join(draft, MEMORY_IMAGE), target, limitBytes };
    let taken: TakenImage | undefined;
    const value = await take(async () =>
      connections.whileCut(async () => {
        taken = await checkpoint(source, image);
      }),
    );
    result = { value };
    if (value === undefined) throw nothing;
    await sealImage(draft, { ...place, secret, taken }, limitBytes);
  };
  try {
    await makeWhole(target, { fill, sync: syncFolder });
  } catch (error) {
    if (error !== nothing) throw error;
  }
  assert(result !== undefined, "what fills the folder took it");
  return result.value;
}

interface ImagePlace {
  readonly folder: string;
  /** Where the image is once it is whole. */
  readonly target: string;
  readonly limitBytes: number;
}

/** Fills the folder, which this call makes. The container is paused, and no connection is open. */
async function checkpoint(
  source: MemorySource,
  image: ImagePlace,
): Promise<TakenImage | undefined> {
  const { folder } = image;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await mkdir(folder, { mode: 0o700 });
      const taker = source.keys.isOn ? await createTaker(source.keys, image) : undefined;
      // One that is encrypted is bounded where it is taken.
      const limitBytes = taker === undefined ? image.limitBytes : Infinity;
      await using stack = new AsyncDisposableStack();
      stack.use(watchImage(folder, limitBytes, async () => source.cgroup.kill()));
      await runCheckpoint(source, folder, taker);
      await step("checkpoint.saved");
      return taker?.taken();
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

async function runCheckpoint(
  source: MemorySource,
  folder: string,
  taker: ImageTaker | undefined,
): Promise<void> {
  const { runtime, flags, id, directory, perlDirectory } = source;
  const stage = stageOf(directory).directory;
  const state = join(stage, STATE);
  const path = taker === undefined ? folder : join(stage, taker.place);
  const words = ["checkpoint", "--leave-running", "--compression=none", "--image-path", path, id];
  const command = launcherCommand(perlDirectory, [
    ...(taker?.before ?? []),
    ["isolate"],
    ["mount", "tmpfs", stage, "mode=0755,size=1m"],
    ["chdir", stage],
    ["mkdir", STATE],
    ["bind", join(directory, FOLDER_NAMES.runtime, STATE), STATE],
    ...(taker?.inside ?? []),
    ["exec", runtime, "--root", state, ...flags, ...words],
  ]);
  await runProgram(command, {
    timeoutMs: TIMEOUT_MS,
    ...(taker !== undefined && { serve: taker.serve }),
  });
}
