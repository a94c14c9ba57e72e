/**
 * The reply of a stream, as its operation may write to it: bytes that are encoded already, past
 * the library, which goes on with the end of the stream afterwards.
 */

import type { ServerResponse } from "node:http";
import { createContextKey, type ContextKey, type HandlerContext } from "@connectrpc/connect";
import { SandboxError } from "../common/errors.ts";
import type { Codec } from "./process-events.ts";

export interface FrameSink {
  readonly codec: Codec;
  /** Resolves when the connection has taken all of them; rejects with the reason of `stop`. */
  write(frames: readonly Uint8Array[]): Promise<void>;
  /** Sends the last of them with the end of the stream; false, and nothing, where that would wait. */
  finish(frames: readonly Uint8Array[]): boolean;
  /** Ends a write that waits, and every later one; the client gets a while to hear of the end. */
  stop(reason: Error): void;
}

/** Travels with each RPC from the server to its operation. */
export const frameSinkKey: ContextKey<FrameSink | undefined> = createContextKey<
  FrameSink | undefined
>(undefined);

/** So much may follow upon what the connection has taken already without a caller that waits for it. */
const MAX_LAST_BYTES = 16_384;
/** Who was told the end of a stream, but does not read it, loses the connection then. */
const LAST_WORDS_MS = 30_000;

export function frameSinkOf(context: HandlerContext): FrameSink {
  const sink = context.values.get(frameSinkKey);
  if (sink === undefined) throw new SandboxError("internal", "call without a reply");
  return sink;
}

/** A sink into a reply, whose head is sent by then. */
export function createFrameSink(response: ServerResponse, codec: Codec): FrameSink {
  let reason: Error | undefined;
  let reject: ((error: Error) => void) | undefined;

  return {
    codec,
    async write(frames) {
      if (reason !== undefined) throw reason;
      const written = Promise.withResolvers<void>();
      ({ reject } = written);
      for (const [index, frame] of frames.entries()) {
        if (index < frames.length - 1) response.write(frame);
        else response.write(frame, (error) => settle(written, error));
      }
      await written.promise;
      reject = undefined;
    },
    finish(frames) {
      const bytes = frames.reduce((sum, frame) => sum + frame.length, 0);
      if (reason !== undefined || response.writableLength > 0 || bytes > MAX_LAST_BYTES)
        return false;
      for (const frame of frames) response.write(frame);
      return true;
    },
    stop(error) {
      reason ??= error;
      reject?.(error);
      if (response.destroyed) return;
      const timer = setTimeout(() => response.destroy(), LAST_WORDS_MS);
      response.once("close", () => clearTimeout(timer));
    },
  };
}

function settle(written: PromiseWithResolvers<void>, error: Error | null | undefined): void {
  if (error) written.reject(error);
  else written.resolve();
}
