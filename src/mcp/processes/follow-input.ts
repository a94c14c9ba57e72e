/** The output that follows an input: a REPL's answer, without its echo alone. */

import { anySignal } from "../../common/any-signal.ts";
import type { Clock } from "../../common/clock.ts";
import { timeLimit, type ProcessView } from "../../output/capture.ts";
import { cleanTerminal } from "../../output/text.ts";

/** A program that is silent for so long after an answer waits for input, or works. */
const QUIET_MS = 400;
/** Longer input is not compared with its echo. */
const MAX_ECHO_BYTES = 16_384;

export interface FollowOptions {
  readonly clock: Clock;
  /** Fires at the end of the wait. */
  readonly deadline: AbortSignal;
  /** Position in the output when the input was sent. */
  readonly cursor: number;
  readonly input: Buffer;
}

/**
 * Waits for output, until it pauses, the process ends, no server takes its output any more, or the time
 * is over. In a pause the output is looked at once: it may come byte by byte.
 */
export async function followInput(process: ProcessView, options: FollowOptions): Promise<void> {
  const { clock, cursor, deadline } = options;
  while (isRunning(process) && !process.isOrphan && !deadline.aborted) {
    const { totalBytes } = process.output;
    const hasOutput = totalBytes > cursor;
    const pause = hasOutput
      ? anySignal([deadline, timeLimit(clock, QUIET_MS, deadline)])
      : deadline;
    await process.changed(pause);
    const isQuiet = () => isRunning(process) && process.output.totalBytes === totalBytes;
    if (!hasOutput || !isQuiet()) continue;
    if (!(await isEcho(process, options))) return;
    // What came meanwhile wakes no caller any more.
    if (isQuiet()) await process.changed(deadline);
  }
}

function isRunning({ state }: ProcessView): boolean {
  return state.kind === "running";
}

/** Whether a terminal has so far shown nothing but what was typed. */
async function isEcho(process: ProcessView, { cursor, input }: FollowOptions): Promise<boolean> {
  const { totalBytes } = process.output;
  // Each character can be shown with codes around it.
  if (input.length > MAX_ECHO_BYTES || totalBytes - cursor > MAX_ECHO_BYTES * 4) return false;
  const pieces = await process.output.pieces(cursor, totalBytes - cursor);
  const shown = pieces
    .filter((piece) => piece.stream === "stdout")
    .map((piece) => piece.bytes.subarray(Math.max(0, cursor - piece.start)));
  const echo = squeeze(Buffer.concat(shown));
  return echo !== "" && squeeze(input).startsWith(echo);
}

/** Text without the spaces and line ends that a terminal changes. */
function squeeze(bytes: Buffer): string {
  return cleanTerminal(bytes.toString("utf8")).replaceAll(/\s/g, "");
}
