/** The memory that images take while they are restored: what one was promised is not there for another. */

import { SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";

/** The image itself, which counts as the service's, and the memory that the runtime makes of it. */
const COPIES = 2;
const BYTES_PER_KIB = 1024;
const BYTES_PER_MB = 1024 * 1024;

let reservedBytes = 0;
let released = Promise.withResolvers<void>();

/**
 * Takes memory for an image, once others have given back what they have.
 * @throws SandboxError resource_exhausted where it does not fit beside no other image, or in time.
 */
export async function reserveMemory(sizeBytes: number, signal: AbortSignal): Promise<Disposable> {
  while (sizeBytes > findFree()) {
    // Also when it is canceled: nothing was started, which another error would leave open.
    if (reservedBytes === 0 || signal.aborted) throw tooLarge(sizeBytes);
    await untilReleased(signal);
  }
  reservedBytes += sizeBytes;
  let isHeld = true;
  return {
    [Symbol.dispose]() {
      if (!isHeld) return;
      isHeld = false;
      reservedBytes -= sizeBytes;
      released.resolve();
      released = Promise.withResolvers();
    },
  };
}

async function untilReleased(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = () => resolve();
  signal.addEventListener("abort", stop, { once: true });
  await Promise.race([released.promise, promise]);
  signal.removeEventListener("abort", stop);
}

/** How large an image may be: for the machine, and for the service where it has a limit of its own. */
function findFree(): number {
  const text = readKernelFile("/proc/meminfo") ?? "";
  const kib = Number(/^MemAvailable: +([0-9]+) kB$/m.exec(text)?.[1] ?? 0);
  const ofMachine = (kib * BYTES_PER_KIB) / COPIES;
  const limit = process.constrainedMemory();
  // 0 in a cgroup that cannot have a limit, as the one at the root of version 2 is.
  const ofService = limit > 0 ? limit - process.memoryUsage.rss() : Infinity;
  return Math.min(ofMachine, ofService) - reservedBytes;
}

function tooLarge(sizeBytes: number): SandboxError {
  const [needed, free] = [sizeBytes, Math.max(0, findFree())].map((bytes) =>
    Math.ceil(bytes / BYTES_PER_MB),
  );
  return new SandboxError(
    "resource_exhausted",
    `an encrypted image of ${needed} MB is restored in memory, where ${free} MB are free for it`,
    { hint: "end or pause other sandboxes, or use memory: false, which starts on the files" },
  );
}
