/**
 * Writes the memory of a paused container with a kernel of its own to a folder; it stays paused, and
 * goes on when it is resumed. Its kernel saves nothing while a connection of the host is joined to it.
 */

import assert from "node:assert";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { syncFolder } from "../../common/files.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { step } from "../../common/steps.ts";
import { launcherCommand } from "../host/launcher.ts";
import { runProgram, type RunningProgram } from "../host/run-program.ts";
import type { Connections } from "../network/connections.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { FOLDER_NAMES } from "../oci/remove-container.ts";
import { makeWhole } from "../storage/layers.ts";
import { stageOf } from "../storage/rootfs.ts";
import { flushImage } from "./flush-image.ts";
import type { ImageKeys } from "./image-seal.ts";
import { MEMORY_IMAGE, readPlace, sealImage, type TakenImage } from "./memory-image.ts";
import { createTaker } from "./take-image.ts";
import { watchImage } from "./watch-image.ts";

/** Gigabytes on a slow disk. */
const TIMEOUT_MS = 5 * 60_000;
/** Of the copy of files before it. */
const PREPARED_MS = 10 * 60_000;
/** What the launcher waits for. */
const GO = "go\n";
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
    await using first = prepareSave(source, image);
    // Programs that go on do not wait for the disk.
    await using flushed = new AsyncDisposableStack();
    let taken: TakenImage | undefined;
    const value = await take(async () =>
      connections.whileCut(async () => {
        flushed.use(flushImage(image.folder));
        taken = await checkpoint(source, image, first);
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

/** Fills the folder. The container is paused, and no connection is open. */
async function checkpoint(
  source: MemorySource,
  image: ImagePlace,
  first: PreparedSave,
): Promise<TakenImage | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await using save = attempt === 1 ? first : prepareSave(source, image);
      const taken = await save.run();
      await step("checkpoint.saved");
      return taken;
    } catch (error) {
      await removeTree(image.folder);
      const isLate = hasErrorCode(error, "deadline_exceeded");
      if (isLate || attempt === ATTEMPTS) {
        throw new SandboxError("unavailable", "memory was not saved", { cause: error });
      }
      await sleep(RETRY_MS);
    }
  }
}

interface PreparedSave extends AsyncDisposable {
  /** Once, when the container is paused. */
  run(): Promise<TakenImage | undefined>;
}

/** Starts all but the runtime while programs still run, which would be frozen for it. */
function prepareSave(source: MemorySource, image: ImagePlace): PreparedSave {
  const go = Promise.withResolvers<string>();
  const end = new AbortController();
  const saving = runCheckpoint({ source, image, go: go.promise }, end.signal);
  // Who runs it learns of its fault.
  saving.catch(() => undefined);
  return {
    async run() {
      // One that is encrypted is bounded where it is taken.
      const limitBytes = source.keys.isOn ? Infinity : image.limitBytes;
      const late = signalAfter(TIMEOUT_MS);
      late.addEventListener("abort", () => end.abort(), { once: true });
      await using stack = new AsyncDisposableStack();
      stack.use(watchImage(image.folder, limitBytes, async () => source.cgroup.kill()));
      go.resolve(GO);
      return await saving.catch((error: unknown) => {
        throw late.aborted ? new SandboxError("deadline_exceeded", "save took too long") : error;
      });
    },
    async [Symbol.asyncDispose]() {
      go.resolve("");
      end.abort();
      await saving.catch(() => undefined);
    },
  };
}

interface CheckpointRun {
  readonly source: MemorySource;
  readonly image: ImagePlace;
  /** What the launcher waits for. */
  readonly go: Promise<string>;
}

async function runCheckpoint(
  { source, image, go }: CheckpointRun,
  signal: AbortSignal,
): Promise<TakenImage | undefined> {
  const { runtime, flags, id, directory, perlDirectory, keys } = source;
  await mkdir(image.folder, { mode: 0o700 });
  const taker = keys.isOn ? await createTaker(keys, image) : undefined;
  const stage = stageOf(directory).directory;
  const state = join(stage, STATE);
  const path = taker === undefined ? image.folder : join(stage, taker.place);
  const words = ["checkpoint", "--leave-running", "--compression=none", "--image-path", path, id];
  const command = launcherCommand(perlDirectory, [
    ...(taker?.before ?? []),
    ["isolate"],
    ["mount", "tmpfs", stage, "mode=0755,size=1m"],
    ["chdir", stage],
    ["mkdir", STATE],
    ["bind", join(directory, FOLDER_NAMES.runtime, STATE), STATE],
    ...(taker?.inside ?? []),
    ["await"],
    ["exec", runtime, "--root", state, ...flags, ...words],
  ]);
  const serve = async ({ stdin, stdout }: RunningProgram) => {
    void go.then((word) => stdin.end(word));
    await taker?.serve({ stdout });
  };
  await runProgram(command, {
    timeoutMs: PREPARED_MS + TIMEOUT_MS,
    signal,
    ...(taker === undefined ? { input: go } : { serve }),
  });
  return taker?.taken();
}
