/** A process whose output this server captures, or finds in a spool of another server. */

import type { Sandbox } from "../client/envd.ts";
import type { OutputStream } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError, type ErrorCode } from "../common/errors.ts";
import { toKnownCommand, type KnownCommand } from "./known-command.ts";
import type { OutputSource, ProcessOutput } from "./process-output.ts";

export type ProcessState =
  | { readonly kind: "running" }
  /** `exitCode` is -1 or 128 + n after a signal; `reason` is the daemon's text. */
  | { readonly kind: "ended"; readonly exitCode: number; readonly reason: string }
  | { readonly kind: "timed_out" }
  /** The stream broke: the state of the process is unknown. */
  | { readonly kind: "lost"; readonly error: SandboxError }
  /** The process ended while no server watched it. */
  | { readonly kind: "unwatched" };

/** The name of a process in tool calls; unique within its sandbox. */
export function formatProcessId(pid: number): string {
  return `p_${pid}`;
}

/** The pid of a process name; undefined when it is malformed. */
export function parseProcessId(text: string): number | undefined {
  const digits = /^p_([1-9][0-9]{0,9})$/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** The pid of a process name. @throws SandboxError invalid_argument when it is malformed. */
export function requirePid(processId: string): number {
  const pid = parseProcessId(processId);
  if (pid !== undefined) return pid;
  throw new SandboxError("invalid_argument", `process_id ${processId} is malformed`);
}

export type OutputListener = (stream: OutputStream, bytes: Uint8Array) => void;

/** A process, whichever server watches it. */
export interface ProcessView {
  readonly sandboxId: string;
  readonly processId: string;
  readonly state: ProcessState;
  readonly startedAtMs: number;
  /** Unix milliseconds; undefined while the process runs. */
  readonly endedAtMs: number | undefined;
  /** Whether output from before the attach is missing. */
  readonly isAttached: boolean;
  readonly output: OutputSource;
  /** How much of the end of the output is neither on the disk nor in memory. */
  readonly unwrittenBytes: number;
  /** Whether no server takes its output any more, because the server that watched it has ended. */
  readonly isOrphan: boolean;
  /** Resolves at the next output, at the end, or when the signal fires; at once for an orphan. */
  changed(signal: AbortSignal): Promise<void>;
}

/** Whether it is over; one that is lost may go on. */
export function hasEnded({ state }: ProcessView): boolean {
  return state.kind !== "running" && state.kind !== "lost";
}

/**
 * Whether a process is watched anew: its output before is not known, and its positions begin at zero.
 * One whose output is continued keeps its start.
 */
export function isWatchedAnew(now: ProcessView, before: ProcessView): boolean {
  return now.startedAtMs !== before.startedAtMs;
}

/** Codes of a call that its receiver may have taken all the same. */
const MAY_HAVE_ARRIVED: ReadonlySet<ErrorCode> = new Set([
  "unavailable",
  "deadline_exceeded",
  "canceled",
]);

/** A process that this server watches. */
export class Capture implements ProcessView {
  readonly sandbox: Sandbox;
  readonly pid: number;
  /** As the daemon lists it; undefined for one that this server did not start. */
  readonly command: KnownCommand | undefined;
  readonly startedAtMs: number;
  readonly isAttached: boolean;
  /** When its time limit is over, by the clock of durations; undefined where none is known. */
  readonly limitAtElapsedMs: number | undefined;
  readonly output: ProcessOutput;
  /** The newest output is in memory. */
  readonly unwrittenBytes = 0;
  readonly isOrphan = false;
  /** When it ended, by the clock of durations, which tells how long it is kept. */
  endedAtElapsedMs: number | undefined;
  readonly listeners = new Set<OutputListener>();
  #isKillSent = false;
  #state: ProcessState = { kind: "running" };
  #endedAtMs: number | undefined;
  #waiters: (() => void)[] = [];
  #isCut = false;

  constructor(start: {
    readonly sandbox: Sandbox;
    readonly pid: number;
    readonly command?: string;
    readonly startedAtMs: number;
    readonly isAttached: boolean;
    readonly limitAtElapsedMs?: number | undefined;
    readonly output: ProcessOutput;
  }) {
    this.sandbox = start.sandbox;
    this.pid = start.pid;
    this.command = start.command === undefined ? undefined : toKnownCommand(start.command);
    this.startedAtMs = start.startedAtMs;
    this.isAttached = start.isAttached;
    this.limitAtElapsedMs = start.limitAtElapsedMs;
    this.output = start.output;
  }

  get sandboxId(): string {
    return this.sandbox.id;
  }

  /** Whether this server sent it SIGKILL, so that its end by that signal needs no other cause. */
  get isKillSent(): boolean {
    return this.#isKillSent;
  }

  /** Sends it SIGKILL, which counts as sent unless its daemon refused it. */
  async sendKill(send: () => Promise<void>): Promise<void> {
    const before = this.#isKillSent;
    // Its end may be told before the reply.
    this.#isKillSent = true;
    try {
      await send();
    } catch (error) {
      const isUncertain = error instanceof SandboxError && MAY_HAVE_ARRIVED.has(error.code);
      if (!isUncertain) this.#isKillSent = before;
      throw error;
    }
  }

  get processId(): string {
    return formatProcessId(this.pid);
  }

  get state(): ProcessState {
    return this.#state;
  }

  get endedAtMs(): number | undefined {
    return this.#endedAtMs;
  }

  /** Appends output; the promise, if any, must be awaited before the next call. */
  append(stream: OutputStream, bytes: Uint8Array): Promise<void> | undefined {
    const written = this.output.append(stream, bytes);
    for (const listener of this.listeners) listener(stream, bytes);
    this.#wake();
    return written;
  }

  finish(state: ProcessState, atMs: number): void {
    this.#state = state;
    this.#isCut = false;
    this.#endedAtMs = atMs;
    this.listeners.clear();
    this.#wake();
  }

  /** Notes whether its stream is broken, while another one is sought. */
  setCut(isCut: boolean): void {
    this.#isCut = isCut;
    this.#wake();
  }

  /** Resolves unless its stream is broken: once there is another one, or none, or the signal fires. */
  async whole(signal: AbortSignal): Promise<void> {
    while (this.#isCut && !signal.aborted) await this.changed(signal);
  }

  /** Marks a lost process as running, after a reconnect. */
  resume(): void {
    this.#state = { kind: "running" };
    this.#endedAtMs = undefined;
    this.endedAtElapsedMs = undefined;
  }

  async changed(signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#state.kind !== "running") return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    this.#waiters.push(wake);
    signal.addEventListener("abort", wake, { once: true });
    await promise;
    signal.removeEventListener("abort", wake);
    this.#waiters = this.#waiters.filter((waiter) => waiter !== wake);
  }

  /** Resolves at the end, or when the signal fires. */
  async ended(signal: AbortSignal): Promise<void> {
    while (this.#state.kind === "running" && !signal.aborted) {
      await this.changed(signal);
    }
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }
}

/** A signal that fires when the process has ended or is lost, or with the given one. */
export function endSignal(capture: Capture, signal: AbortSignal): AbortSignal {
  const controller = new AbortController();
  void capture.ended(signal).finally(() => controller.abort());
  return controller.signal;
}

/** A signal that fires after `ms` of the given clock. */
export function timeLimit(clock: Clock, ms: number, signal: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const fire = () => controller.abort();
  // The sleep rejects when the signal fires, which ends the limited wait too.
  void clock.sleep(ms, signal).then(fire, fire);
  return controller.signal;
}

/** The state of a process as a line of its sandbox's log. */
export function describeEnd(state: ProcessState): string {
  switch (state.kind) {
    case "running":
      return "runs";
    case "ended":
      return `ended: exit_code ${state.exitCode}`;
    case "timed_out":
      return "ended: killed at its time limit";
    case "lost":
      return `lost: ${state.error.code}`;
    case "unwatched":
      return "ended while no server watched it";
    default:
      return state satisfies never;
  }
}
