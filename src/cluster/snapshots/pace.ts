/** Bounds the time and the bytes of a sender that root inside a sandbox controls. */

import { SandboxError } from "../../common/errors.ts";

export interface PaceBounds {
  /** A daemon that finds few changes in many files sends nothing for so long. */
  readonly silenceMs: number;
  /** Adds to that time for what has come. */
  readonly bytesPerSecond: number;
  /** Of what it sends, whatever of it counts. */
  readonly maxBytes: number;
}

const MS_PER_SECOND = 1_000;

export interface Pace {
  /** Waits for something of the sender, within the time that is left. */
  await<T>(next: Promise<T>): Promise<T>;
  /** The pieces of a source as they come. The time in which its reader does other things does not count. */
  read(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void>;
}

/** @throws SandboxError unavailable by each of its methods when the sender is too slow, or sends too much */
export function createPace({ silenceMs, bytesPerSecond, maxBytes }: PaceBounds): Pace {
  let leftMs = silenceMs;
  let bytes = 0;

  async function within<T>(next: Promise<T>): Promise<T> {
    const beganMs = performance.now();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(refuse("sends its changes too slowly")),
      Math.max(leftMs, 0),
    );
    try {
      return await Promise.race([next, late]);
    } finally {
      clearTimeout(timer);
      leftMs -= performance.now() - beganMs;
    }
  }

  return {
    await: within,
    async *read(source) {
      const chunks = source[Symbol.asyncIterator]();
      for (;;) {
        const chunk = await within(chunks.next());
        if (chunk.done === true) return;
        bytes += chunk.value.length;
        if (bytes > maxBytes) throw refuse(`sends more than ${maxBytes} bytes`);
        leftMs += (chunk.value.length / bytesPerSecond) * MS_PER_SECOND;
        yield chunk.value;
      }
    },
  };
}

function refuse(reason: string): SandboxError {
  return new SandboxError("unavailable", `the daemon of the sandbox ${reason}`);
}
