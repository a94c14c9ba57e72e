/**
 * Images of memory that are encrypted on their way between the runtime and the disk: the runtime
 * writes to a file system that makes one stream of its files, and reads from one in memory that is
 * made of that stream again. Neither is seen outside of the runtime's mount namespace.
 */

import { accessSync, constants, createReadStream, createWriteStream } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import type { LauncherStep } from "../oci/launcher.ts";
import { createOpener, createSealer } from "./image-cipher.ts";
import { newSeal, subjectOf, type ImageKeys } from "./image-seal.ts";
import {
  notRestorable,
  SEALED_FILE,
  type RestorableMemory,
  type TakenImage,
} from "./memory-image.ts";

const DEVICE = "/dev/fuse";
const FILE_MODE = 0o600;
/** In the working folder of the launcher. */
const PLACE = "image";
/** Of a file system in memory, beside the bytes of its files. */
const SPARE_BYTES = 1024 * 1024;
/** The image itself, and the memory that the runtime makes of it. */
const COPIES = 2;
const BYTES_PER_KIB = 1024;
const BYTES_PER_MB = 1024 * 1024;

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
  readonly onOutput: (stdout: Readable) => Promise<void>;
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
    async onOutput(stdout) {
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
  readonly onInput: (stdin: Writable) => Promise<void>;
}

/**
 * Gives the runtime the files of an encrypted image in memory, for as long as it reads them.
 * @throws SandboxError resource_exhausted where they do not fit into the memory of the machine.
 */
export function createGiver(
  file: string,
  { key, sizeBytes }: NonNullable<RestorableMemory["sealed"]>,
): ImageGiver {
  const reservation = reserve(sizeBytes);
  return {
    steps: [
      ["mkdir", PLACE],
      ["give", PLACE, `${sizeBytes + SPARE_BYTES}`],
    ],
    place: PLACE,
    async onInput(stdin) {
      try {
        await pipeline(createReadStream(file), createOpener(key), stdin);
      } catch (error) {
        if (!(error instanceof SandboxError)) throw error;
        throw notRestorable("its image is damaged", error);
      }
    },
    [Symbol.dispose]: () => reservation[Symbol.dispose](),
  };
}

/** Of all restores under way: what one has been promised is not there for another. */
let reservedBytes = 0;

function reserve(sizeBytes: number): Disposable {
  const wanted = COPIES * sizeBytes;
  const free = readFreeBytes() - reservedBytes;
  if (wanted > free) {
    const [mb, freeMb] = [wanted, Math.max(free, 0)].map((bytes) =>
      Math.ceil(bytes / BYTES_PER_MB),
    );
    throw new SandboxError(
      "resource_exhausted",
      `an encrypted image needs ${mb} MB of memory while it is restored, and ${freeMb} MB are free`,
      { hint: "end or pause other sandboxes, or use memory: false, which starts on the files" },
    );
  }
  reservedBytes += wanted;
  let isHeld = true;
  return {
    [Symbol.dispose]() {
      if (isHeld) reservedBytes -= wanted;
      isHeld = false;
    },
  };
}

function readFreeBytes(): number {
  const text = readKernelFile("/proc/meminfo") ?? "";
  return Number(/^MemAvailable: +([0-9]+) kB$/m.exec(text)?.[1] ?? 0) * BYTES_PER_KIB;
}
