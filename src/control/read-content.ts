/** The body of an upload as it comes; a pause that is too long ends it like a client that left. */

import type { IncomingMessage } from "node:http";
import { SandboxError } from "../common/errors.ts";
import { chunksInTurns } from "../common/loop-turns.ts";

/** A client that sends nothing for so long has gone. */
const UPLOAD_PAUSE_MS = 60_000;

/** @throws SandboxError canceled when the client leaves before the end. */
export async function* readContent(
  request: IncomingMessage,
  pauseMs = UPLOAD_PAUSE_MS,
): AsyncGenerator<Buffer> {
  const end = () => request.destroy(new Error("upload paused for too long"));
  let timer = setTimeout(end, pauseMs);
  try {
    for await (const chunk of chunksInTurns(request)) {
      clearTimeout(timer);
      yield chunk;
      timer = setTimeout(end, pauseMs);
    }
  } catch (error) {
    throw new SandboxError("canceled", "request ended before its body", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}
