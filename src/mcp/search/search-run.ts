/** One run of a program that searches: its output is read as it comes, and no more than is needed. */

import type { Sandbox } from "../../client/envd.ts";
import { hasErrorCode } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";

/** What one search reads from its program. */
export const MAX_STREAM_BYTES = 16 * 1024 * 1024;
const MAX_STDERR_BYTES = 4_096;
/** A daemon that does not know of the deadline kills the program then. */
const PROGRAM_TIMEOUT_MS = 30_000;

/** Where a program runs, and until when. */
interface ProgramPlace {
  readonly sandbox: Sandbox;
  readonly user: string | undefined;
  readonly deadline: AbortSignal;
}

export interface Reading {
  take(chunk: Uint8Array): void;
  isFull(): boolean;
}

export interface Run {
  /** -1 or 128 + n after a signal; undefined for one that had not ended. */
  readonly status: number | undefined;
  readonly stopped: "output" | "time" | undefined;
  /** Lines on stderr. */
  readonly complaints: number;
  readonly stderr: string;
}

/** Runs a program until its end, or until enough is read; then it is killed. */
export async function runProgram(
  place: ProgramPlace,
  [cmd = "", ...args]: readonly string[],
  reading: Reading,
): Promise<Run> {
  const { sandbox, user, deadline } = place;
  // A glob that begins with a slash begins at the working directory.
  const process = { cmd, args, cwd: "/", env: { LC_ALL: "C" }, hasStdin: false };
  const events = sandbox.process.start(process, {
    signal: deadline,
    user,
    timeoutMs: PROGRAM_TIMEOUT_MS,
  });
  let [pid, size, complaints, stderr] = [0, 0, 0, ""];
  let status: number | undefined;
  let stopped: Run["stopped"];
  try {
    for await (const event of events) {
      if (event.type === "start") ({ pid } = event);
      else if (event.type === "end") status = event.exitCode;
      else if (event.stream === "stderr") {
        const text = Buffer.from(event.bytes).toString("utf8");
        complaints += text.split("\n").length - 1;
        stderr = `${stderr}${text}`.slice(0, MAX_STDERR_BYTES);
      } else reading.take(event.bytes);
      if (event.type === "data") size += event.bytes.length;
      if (size > MAX_STREAM_BYTES) stopped = "output";
      if (stopped !== undefined || reading.isFull()) break;
    }
  } catch (error) {
    if (!isTimeUp(error, deadline)) throw error;
    stopped = "time";
  }
  if (status === undefined && pid !== 0) await endProgram(sandbox, pid);
  return { status, stopped, complaints, stderr };
}

function isTimeUp(error: unknown, deadline: AbortSignal): boolean {
  return deadline.aborted || hasErrorCode(error, "deadline_exceeded");
}

const KILL_TIMEOUT_MS = 5_000;

async function endProgram(sandbox: Sandbox, pid: number): Promise<void> {
  try {
    await sandbox.process.sendSignal(pid, "SIGKILL", signalAfter(KILL_TIMEOUT_MS));
  } catch {
    // The program has ended, or the sandbox has; the daemon's own timeout is the second limit.
  }
}
