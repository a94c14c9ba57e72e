/** What one process reads: its standard input, or what is typed on its terminal. */

import type { Writable } from "node:stream";
import { SandboxError } from "../../common/errors.ts";
import { errnoText } from "../errno.ts";

export interface ProcessInput {
  /**
   * Resolves when the process's pipe has taken every byte; rejects with the signal's reason.
   * @throws SandboxError internal when there is no open input, resource_exhausted
   */
  write(bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** Idempotent, also without an input. */
  close(): void;
}

/** What callers may have written ahead of a process that does not read. */
const MAX_WAITING_BYTES = 16_777_216;

/** The input of a process; a null stream for one that was started without. */
export function createInput(
  stdin: Writable | null,
  { pid, name }: { readonly pid: number; readonly name: "stdin" | "tty" },
): ProcessInput {
  // The write that fails tells its caller; the stream's own event would only end the daemon.
  stdin?.on("error", () => undefined);
  return {
    async write(bytes, signal) {
      if (stdin === null || stdin.destroyed || stdin.writableEnded) {
        const message = `error writing to ${name}: ${name} not enabled or closed`;
        throw new SandboxError("internal", message);
      }
      if (bytes.length === 0) return;
      if (stdin.writableLength + bytes.length > MAX_WAITING_BYTES) {
        const message = `process '${pid}' has more than ${MAX_WAITING_BYTES} bytes of input waiting`;
        throw new SandboxError("resource_exhausted", message);
      }
      await written(stdin, { bytes, pid, name }, signal);
    },
    close() {
      if (stdin !== null && !stdin.destroyed) stdin.end();
    },
  };
}

async function written(
  stdin: Writable,
  item: { readonly bytes: Uint8Array; readonly pid: number; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  stdin.write(item.bytes, (error) => {
    if (error) {
      const subject = `error writing to ${item.name} of process '${item.pid}'`;
      const message = `error writing to ${item.name}: ${subject}: ${errnoText(error)}`;
      reject(new SandboxError("internal", message, { cause: error }));
    } else {
      resolve();
    }
  });
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
