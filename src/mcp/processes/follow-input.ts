/** The output that follows an input: a REPL's answer, without its echo alone. */

import { anySignal } from "../../common/any-signal.ts";
import type { Clock } from "../../common/clock.ts";
import { orCanceled } from "../../common/or-canceled.ts";
import { isWatchedAnew, timeLimit, type ProcessView } from "../../output/capture.ts";
import type { OutputSource } from "../../output/process-output.ts";
import { cleanTerminal } from "../../output/text.ts";

/** A program that is silent for so long after an answer waits for input, or works. */
const QUIET_MS = 400;
/** Longer input is not compared with its echo. */
const MAX_ECHO_BYTES = 16_384;

export interface FollowOptions {
  readonly clock: Clock;
  /** Fires at the end of the wait. */
  readonly deadline: AbortSignal;
  /** Where the output ended when the input was sent. */
  readonly sent: OutputMark;
  /** What was typed on a terminal, which shows it again; empty for a pipe. */
  readonly typed: Buffer;
  /** The process as it is watched now: the server that watched it may have ended. */
  readonly find: () => Promise<ProcessView>;
}

/** A place in the output. */
export interface OutputMark {
  readonly cursor: number;
  /** Bytes of the process itself before it. A note in the output, as of a broken stream, is no answer. */
  readonly writtenBytes: number;
}

export function markOf({ totalBytes, written }: OutputSource): OutputMark {
  return { cursor: totalBytes, writtenBytes: written.stdout + written.stderr };
}

interface Following {
  /** As it was watched last. */
  readonly process: ProcessView;
  /** Where the output that follows the input begins in its output. */
  readonly sent: OutputMark;
}

/**
 * Waits for output, until it pauses, the process ends, or the time is over. In a pause the output is
 * looked at once: it may come byte by byte.
 */
export async function followInput(first: ProcessView, options: FollowOptions): Promise<Following> {
  const { clock, deadline, find, typed } = options;
  let { sent } = options;
  let process = first;
  while (isRunning(process) && !deadline.aborted) {
    if (process.isOrphan) {
      // A daemon that does not answer is waited for no longer than output is.
      const found = await orCanceled(find(), deadline).catch(() => undefined);
      if (found === undefined) break;
      if (isWatchedAnew(found, process)) sent = { cursor: 0, writtenBytes: 0 };
      process = found;
      continue;
    }
    const { totalBytes } = process.output;
    const hasOutput = markOf(process.output).writtenBytes > sent.writtenBytes;
    const pause = hasOutput
      ? anySignal([deadline, timeLimit(clock, QUIET_MS, deadline)])
      : deadline;
    await process.changed(pause);
    if (!hasOutput || !isQuiet(process, totalBytes)) continue;
    if (!(await isEcho(process, { sent, typed }))) break;
    // What came meanwhile wakes no caller any more.
    if (isQuiet(process, totalBytes)) await process.changed(deadline);
  }
  return { process, sent };
}

/** Whether nothing came since its output had so many bytes. */
function isQuiet(process: ProcessView, totalBytes: number): boolean {
  return isRunning(process) && !process.isOrphan && process.output.totalBytes === totalBytes;
}

function isRunning({ state }: ProcessView): boolean {
  return state.kind === "running";
}

/** Whether a terminal has so far shown nothing but what was typed. */
async function isEcho(
  process: ProcessView,
  { sent, typed }: Pick<FollowOptions, "sent" | "typed">,
): Promise<boolean> {
  const { cursor } = sent;
  const { totalBytes } = process.output;
  // Each character can be shown with codes around it.
  if (typed.length > MAX_ECHO_BYTES || totalBytes - cursor > MAX_ECHO_BYTES * 4) return false;
  const pieces = await process.output.pieces(cursor, totalBytes - cursor);
  const shown = pieces
    .filter((piece) => piece.stream === "stdout")
    .map((piece) => piece.bytes.subarray(Math.max(0, cursor - piece.start)));
  const echo = squeeze(Buffer.concat(shown));
  return echo !== "" && squeeze(typed).startsWith(echo);
}

/** Text without the spaces and line ends that a terminal changes. */
function squeeze(bytes: Buffer): string {
  return cleanTerminal(bytes.toString("utf8")).replaceAll(/\s/g, "");
}
