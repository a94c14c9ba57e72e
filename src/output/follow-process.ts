/** Takes the output of one process until its end, over as many streams as that needs. */

import type { ProcessEvent } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { describeEnd, type Capture, type ProcessState } from "./capture.ts";
import { isListedAs } from "./known-command.ts";
import type { SandboxLogs } from "./logs.ts";
import { toNote } from "./quote.ts";
import { toEnding } from "./stored-process.ts";

/** Delays before the attempts to reconnect a broken stream. */
const RECONNECT_DELAYS_MS: readonly number[] = [50, 500, 2_000];
/** Marks the place in the output where bytes may be missing. */
const MISSING =
  "[… its stream was broken here: what it wrote meanwhile, if anything, is missing …]";

/** The events of one stream; the first one is `start`. */
export type ProcessEvents = AsyncGenerator<ProcessEvent, void>;

export interface FollowOptions {
  readonly clock: Clock;
  readonly logs: SandboxLogs;
  readonly log: Logger;
  /** Whether a sandbox runs. Asked before a reconnect, which would wake a paused sandbox. */
  isRunning(sandboxId: string, signal: AbortSignal): Promise<boolean>;
  /** Fires when the server ends. */
  readonly signal: AbortSignal;
}

/** Appends the events of a process to its capture, reconnects broken streams, records the end. */
export async function followProcess(
  events: ProcessEvents,
  capture: Capture,
  options: FollowOptions,
): Promise<void> {
  let state = await take(events, capture, options);
  while (state.kind === "lost" && !options.signal.aborted) {
    capture.setCut(true);
    const again = await reconnect(capture, options);
    if (again === undefined) break;
    markMissing(capture, options.logs);
    capture.setCut(false);
    state = await take(again, capture, options);
  }
  await finish(capture, state, options);
}

/** The pid of the first event. @throws SandboxError unavailable for a stream without one. */
export async function readPid(events: ProcessEvents): Promise<number> {
  const { value, done } = await events.next();
  if (done !== true && value.type === "start") return value.pid;
  await events.return();
  throw new SandboxError("unavailable", "the process stream did not begin with a start");
}

/** Notes in the output and in the log that output may be missing here. */
export function markMissing({ output, sandboxId, processId }: Capture, logs: SandboxLogs): void {
  // The mark is short, and the next append waits for the disk.
  void output.append("note", toNote(MISSING));
  logs.note(sandboxId, processId, "watched again; some output may be missing");
}

/** Takes one stream to its end; returns the state of the process after it. */
async function take(
  events: ProcessEvents,
  capture: Capture,
  { logs, clock }: FollowOptions,
): Promise<ProcessState> {
  let state: ProcessState | undefined;
  try {
    for await (const event of events) {
      if (event.type === "data") {
        logs.output(capture.sandboxId, capture.processId, event);
        await capture.append(event.stream, event.bytes);
      } else if (event.type === "end") {
        const { exitCode, status: reason } = event;
        // The end by the time limit is told so to a stream that was opened later.
        const isLate = reason.startsWith("signal: killed") && isAtLimit(capture, clock);
        state = isLate ? { kind: "timed_out" } : { kind: "ended", exitCode, reason };
      }
    }
  } catch (error) {
    const failure = toSandboxError(error, "process stream");
    // A service on the way may have a deadline of its own, at which the process goes on.
    const isLate = failure.code === "deadline_exceeded" && isAtLimit(capture, clock);
    state ??= isLate ? { kind: "timed_out" } : { kind: "lost", error: failure };
  }
  const error = new SandboxError("unavailable", "the stream ended too soon");
  return state ?? { kind: "lost", error };
}

/** Another stream of a process; undefined when it ended or cannot be reached. */
async function reconnect(
  capture: Capture,
  options: FollowOptions,
): Promise<ProcessEvents | undefined> {
  const { sandbox, pid } = capture;
  const { clock, signal } = options;
  for (const delayMs of RECONNECT_DELAYS_MS) {
    try {
      await clock.sleep(delayMs, signal);
      if (!(await options.isRunning(sandbox.id, signal))) return undefined;
      if (await isReplaced(capture, signal)) return undefined;
      const events = sandbox.process.connect(pid, signal);
      await readPid(events);
      return events;
    } catch (error) {
      if (signal.aborted || toSandboxError(error, "reconnect").code !== "unavailable") {
        return undefined;
      }
    }
  }
  return undefined;
}

async function finish(
  capture: Capture,
  state: ProcessState,
  options: FollowOptions,
): Promise<void> {
  const { logs, clock, log, signal } = options;
  const { sandboxId, processId, isAttached, output } = capture;
  const endedAtMs = clock.now();
  const ending = toEnding({ state, endedAtMs, isAttached });
  // The next server that is asked for it, this one or another, continues its spool.
  if (state.kind === "lost") await (signal.aborted ? output.park() : output.close(ending));
  capture.finish(state, endedAtMs);
  logs.note(sandboxId, processId, describeEnd(state));
  if (output.failure !== undefined) {
    log.warn({ op: "spool.write", sandboxId, err: output.failure });
  }
  if (state.kind !== "lost") await output.close(ending);
}

/** A daemon's timer may be that much ahead of ours. */
const EARLY_MS = 100;

/** Whether the time limit of a process is over: the daemon ends its stream then, and the process with it. */
function isAtLimit({ limitAtElapsedMs }: Capture, clock: Clock): boolean {
  return limitAtElapsedMs !== undefined && clock.elapsed() >= limitAtElapsedMs - EARLY_MS;
}

/**
 * A sandbox that starts again without its memory numbers its processes from the beginning: another
 * program may have the pid. True only where that is seen.
 */
export async function isReplaced(
  { sandbox, pid, command }: Capture,
  signal: AbortSignal,
): Promise<boolean> {
  if (command === undefined) return false;
  // A sandbox that does not answer this answers no other call about the process either.
  const running = await sandbox.process.list(signal).catch(() => []);
  const found = running.find((process) => process.pid === pid);
  return found !== undefined && !isListedAs(found.cmd, command);
}

/** The fault of a server, and not of a sandbox: nothing in the caller's own one has to be ended. */
export function tooManyFollowed(limit: number): SandboxError {
  const message = `this server follows ${limit} processes in all sandboxes, the limit`;
  const hint = "End processes that are not needed, in any sandbox, or wait until one ends.";
  return new SandboxError("resource_exhausted", message, { hint });
}
