/**
 * Images of memory that are encrypted on their way between the runtime and the disk: the runtime
 * writes to a file system that makes one stream of its files, and reads from one in memory that is
 * made of that stream again. Neither is seen outside of the runtime's mount namespace.
 */

import { accessSync, constants, createReadStream, createWriteStream } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "../../common/errors.ts";
import type { LauncherStep } from "../host/launcher.ts";
import type { RunningProgram } from "../host/run-program.ts";
import { reserveMemory } from "./free-memory.ts";
import { createOpener, createSealer } from "./image-cipher.ts";
import { writeFrames } from "./image-frames.ts";
import { newSeal, subjectOf, type ImageKeys } from "./image-seal.ts";
import {
  notRestorable,
  SEALED_FILE,
  type RestorableMemory,
  type TakenImage,
} from "./memory-image.ts";

const DEVICE = "/dev/fuse";
const FILE_MODE = 0o600;
const READ_BYTES = 1024 * 1024;
/** In the working folder of the launcher. */
const PLACE = "image";
/** Of a file system in memory, beside the bytes of its files. */
const SPARE_BYTES = 1024 * 1024;

/** Why no image can be encrypted here; undefined where one can. */
export function findSealFault({ isOn }: ImageKeys): string | undefined {
  if (!isOn) return undefined;
  try {
    accessSync(DEVICE, constants.R_OK | constants.W_OK);
    return undefined;
  } catch {
    return `memory is encrypted here, which needs ${DEVICE}`;
  }
}

export interface ImageTaker {
  /** Before the mount namespace. */
  readonly before: readonly LauncherStep[];
  /** In it, in a working folder that is in memory. */
  readonly inside: readonly LauncherStep[];
  /** What the runtime is given as the place of the image, below the working folder. */
  readonly place: string;
  readonly serve: (program: Pick<RunningProgram, "stdout">) => Promise<void>;
  /** After a clean end of the runtime. */
  taken(): TakenImage;
}

/** Encrypts what the runtime writes into the file of `folder`, with a key that no attempt had before. */
export async function createTaker(
  keys: ImageKeys,
  { target, folder, limitBytes }: { target: string; folder: string; limitBytes: number },
): Promise<ImageTaker> {
  const seal = await newSeal(keys, subjectOf(target));
  const sealer = createSealer(seal.key);
  return {
    before: [["take", `${Math.min(limitBytes, Number.MAX_SAFE_INTEGER)}`]],
    inside: [
      ["mkdir", PLACE],
      ["taken", PLACE],
    ],
    place: PLACE,
    async serve({ stdout }) {
      const file = createWriteStream(join(folder, SEALED_FILE), { flags: "wx", mode: FILE_MODE });
      await pipeline(stdout, sealer.stream, file);
    },
    taken: () => ({ seal, sizeBytes: sealer.plainBytes }),
  };
}

export interface ImageGiver extends Disposable {
  /** In the mount namespace and the working folder, before the cgroup of the container. */
  readonly steps: readonly LauncherStep[];
  readonly place: string;
  readonly serve: (program: RunningProgram) => Promise<void>;
}

/**
 * Gives the runtime the files of an encrypted image in memory, for as long as it reads them.
 * @throws SandboxError resource_exhausted where they do not fit into the memory of the machine.
 */
export async function createGiver(
  { file, directory }: { readonly file: string; readonly directory: string },
  { key, sizeBytes }: NonNullable<RestorableMemory["sealed"]>,
  signal: AbortSignal,
): Promise<ImageGiver> {
  const place = join(directory, PLACE);
  const reservation = await reserveMemory(sizeBytes, signal);
  return {
    steps: [
      ["mkdir", PLACE],
      ["give", PLACE, `${sizeBytes + SPARE_BYTES}`],
    ],
    place: PLACE,
    async serve({ pid, stdin, stdout }) {
      await untilReady(stdout);
      const frames = createReadStream(file, { highWaterMark: READ_BYTES });
      try {
        await pipeline(frames, createOpener(key), (plain) =>
          writeFrames(plain, seenBy(pid, place)),
        );
      } catch (error) {
        if (!(error instanceof SandboxError)) throw error;
        throw notRestorable("its image is damaged", error);
      }
      stdin.end("go\n");
    },
    [Symbol.dispose]: () => reservation[Symbol.dispose](),
  };
}

/** Resolves when the launcher has made the place. */
async function untilReady(stdout: Readable): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  stdout.once("data", () => resolve());
  stdout.once("end", () => reject(new Error("the launcher made no place")));
  await promise;
}

/** A path as a process sees it that has a mount namespace of its own. */
function seenBy(pid: number, path: string): string {
  return join("/proc", String(pid), "root", path);
}
