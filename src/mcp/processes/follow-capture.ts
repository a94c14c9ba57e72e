/** The wait of a call for the process that it started. */

import type { Capture } from "../../output/capture.ts";
import type { Progress } from "../replies/progress.ts";

/** Resolves when the process ends or the wait does; the host sees new output until then. */
export async function followCapture(
  capture: Capture,
  progress: Progress,
  waitLimit: AbortSignal,
): Promise<void> {
  progress.started(capture.pid);
  for (const { stream, bytes } of capture.output.recent()) {
    if (stream !== "note") progress.output(stream, bytes);
  }
  const listener = progress.output.bind(progress);
  capture.listeners.add(listener);
  try {
    await capture.ended(waitLimit);
  } finally {
    capture.listeners.delete(listener);
  }
}
