/** The output of processes, taken as it comes, so that no slow host can hold a process up. */

import type { Sandbox } from "../client/envd.ts";
import type { OutputStream, ProcessEvent, ProcessRequest } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError, errorText, toSandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { SandboxLogs } from "./logs.ts";
import { OutputBuffer } from "./output-buffer.ts";

export type ProcessState =
  | { readonly kind: "running" }
  /** `exitCode` is -1 or 128 + n after a signal; `reason` is the daemon's own word. */
  | { readonly kind: "ended"; readonly exitCode: number; readonly reason: string }
  | { readonly kind: "timed_out" }
  /** The stream broke: how the process fares is not known. */
  | { readonly kind: "lost"; readonly error: SandboxError };

/** Processes whose output is taken at once; each holds a connection and up to 1 MiB. */
const MAX_RUNNING = 128;
/** How long the output of an ended process is kept. */
const RETENTION_MS = 15 * 60_000;
const MAX_ENDED = 256;
const MAX_ENDED_BYTES = 32 * 1024 * 1024;
/** How long a cancelled start may take to tell the pid that must be ended. */
const ORPHAN_WAIT_MS = 5_000;
/** Between SIGTERM and SIGKILL. */
const GRACE_MS = 2_000;

/** The name under which tools speak of a process; it counts only with its sandbox's id. */
function formatProcessId(pid: number): string {
  return `p_${pid}`;
}

/** The pid of a process name; undefined when it is malformed. */
export function parseProcessId(text: string): number | undefined {
  const digits = /^p_([1-9][0-9]{0,9})$/.exec(text)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

export type OutputListener = (stream: OutputStream, bytes: Uint8Array) => void;

/** One process that this instance watches. */
export class Capture {
  readonly sandbox: Sandbox;
  readonly pid: number;
  readonly startedAtMs: number;
  /** Whether output from before the capture is missing. */
  readonly isAttached: boolean;
  readonly output = new OutputBuffer();
  readonly listeners = new Set<OutputListener>();
  #state: ProcessState = { kind: "running" };
  #endedAtMs: number | undefined;
  #waiters: (() => void)[] = [];

  constructor(start: {
    readonly sandbox: Sandbox;
    readonly pid: number;
    readonly startedAtMs: number;
    readonly isAttached: boolean;
  }) {
    this.sandbox = start.sandbox;
    this.pid = start.pid;
    this.startedAtMs = start.startedAtMs;
    this.isAttached = start.isAttached;
  }

  get processId(): string {
    return formatProcessId(this.pid);
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Unix milliseconds; undefined while the process runs. */
  get endedAtMs(): number | undefined {
    return this.#endedAtMs;
  }

  append(stream: OutputStream, bytes: Uint8Array): void {
    this.output.append(stream, bytes);
    for (const listener of this.listeners) listener(stream, bytes);
    this.#wake();
  }

  finish(state: ProcessState, atMs: number): void {
    this.#state = state;
    this.#endedAtMs = atMs;
    this.listeners.clear();
    this.#wake();
  }

  /** Resolves at the next output or at the end; when the signal fires, too. */
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
      // oxlint-disable-next-line no-await-in-loop
      await this.changed(signal);
    }
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }
}

export interface CapturesOptions {
  readonly clock: Clock;
  readonly logs: SandboxLogs;
  readonly log: Logger;
}

export interface StartWish {
  /** The command as its caller wrote it. */
  readonly label: string;
  readonly request: ProcessRequest;
  readonly user: string | undefined;
  readonly timeoutMs: number | undefined;
  /** Ends the wait for the start, and the process with it; not the process once it runs. */
  readonly signal: AbortSignal;
}

/** All processes whose output this instance takes, and those that ended not long ago. */
export class Captures implements AsyncDisposable {
  readonly #options: CapturesOptions;
  readonly #table = new Map<string, Capture>();
  readonly #stop = new AbortController();
  readonly #work = new Set<Promise<void>>();
  readonly #attaching = new Map<string, Promise<Capture>>();

  constructor(options: CapturesOptions) {
    this.#options = options;
  }

  /** The capture of a process that runs or ended not long ago. */
  find(sandboxId: string, pid: number): Capture | undefined {
    this.#expire();
    return this.#table.get(keyOf(sandboxId, pid));
  }

  /**
   * Starts a process and takes its output until its end.
   * @throws SandboxError what the daemon refused, canceled, resource_exhausted for too many.
   */
  async start(sandbox: Sandbox, wish: StartWish): Promise<Capture> {
    this.#makeRoom();
    const { signal } = this.#stop;
    const { request, user, timeoutMs } = wish;
    const events = sandbox.process.start(request, { signal, user, timeoutMs });
    const startedAtMs = this.#options.clock.now();
    const first = pidOf(events);
    const pid = await this.#orphaned(first, sandbox, wish.signal);
    this.#options.logs.note(sandbox.id, formatProcessId(pid), `started: ${wish.label}`);
    return this.#pump(events, { sandbox, pid, startedAtMs, isAttached: false });
  }

  /**
   * Takes the output of a process that something else started, from now on.
   * @throws SandboxError not_found when there is no such process.
   */
  async attach(sandbox: Sandbox, pid: number): Promise<Capture> {
    this.#makeRoom();
    const key = keyOf(sandbox.id, pid);
    const attaching = this.#attaching.get(key) ?? this.#attach(sandbox, pid);
    this.#attaching.set(key, attaching);
    try {
      return await attaching;
    } finally {
      this.#attaching.delete(key);
    }
  }

  /** Ends a process: SIGTERM, a grace, SIGKILL. Its children can survive. */
  async terminate(capture: Capture): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    await this.#signal(capture.sandbox, capture.pid, "SIGTERM");
    const patience = AbortSignal.any([signal, timeLimit(clock, GRACE_MS, signal)]);
    await capture.ended(patience);
    if (capture.state.kind === "running" && !signal.aborted) {
      await this.#signal(capture.sandbox, capture.pid, "SIGKILL");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#work);
  }

  async #attach(sandbox: Sandbox, pid: number): Promise<Capture> {
    const events = sandbox.process.connect(pid, this.#stop.signal);
    await pidOf(events);
    const { clock, logs } = this.#options;
    logs.note(sandbox.id, formatProcessId(pid), "was running already");
    return this.#pump(events, { sandbox, pid, startedAtMs: clock.now(), isAttached: true });
  }

  #makeRoom(): void {
    this.#expire();
    const running = [...this.#table.values()].filter(({ state }) => state.kind === "running");
    if (running.length < MAX_RUNNING) return;
    throw new SandboxError("resource_exhausted", `${running.length} processes run, the limit`);
  }

  #expire(): void {
    const now = this.#options.clock.now();
    const ended = [...this.#table.entries()]
      .flatMap(([key, { endedAtMs, output }]) =>
        endedAtMs === undefined ? [] : [{ key, endedAtMs, bytes: output.keptBytes }],
      )
      .toSorted((left, right) => right.endedAtMs - left.endedAtMs);
    let bytes = 0;
    for (const [index, entry] of ended.entries()) {
      bytes += entry.bytes;
      const isOld = now - entry.endedAtMs > RETENTION_MS;
      if (isOld || index >= MAX_ENDED || bytes > MAX_ENDED_BYTES) this.#table.delete(entry.key);
    }
  }

  /** The pid, unless the call is cancelled before it is known: then the process must not live. */
  async #orphaned(first: Promise<number>, sandbox: Sandbox, signal: AbortSignal): Promise<number> {
    const { promise: cancelled, reject } = Promise.withResolvers<never>();
    const cancel = () => reject(new SandboxError("canceled", "the call was cancelled"));
    if (signal.aborted) cancel();
    signal.addEventListener("abort", cancel, { once: true });
    try {
      return await Promise.race([first, cancelled]);
    } catch (error) {
      if (signal.aborted) this.#track(this.#endOrphan(first, sandbox));
      throw error;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  async #endOrphan(first: Promise<number>, sandbox: Sandbox): Promise<void> {
    const { clock, log } = this.#options;
    const late = clock.sleep(ORPHAN_WAIT_MS, this.#stop.signal).then(() => undefined);
    try {
      const pid = await Promise.race([first, late]);
      if (pid !== undefined) await this.#signal(sandbox, pid, "SIGKILL");
    } catch (error) {
      log.debug({ op: "process.orphan", sandboxId: sandbox.id, error: errorText(error) });
    }
  }

  async #signal(sandbox: Sandbox, pid: number, name: "SIGTERM" | "SIGKILL"): Promise<void> {
    try {
      await sandbox.process.sendSignal(pid, name, this.#stop.signal);
    } catch (error) {
      // It may have ended by itself meanwhile, or its sandbox with it.
      this.#options.log.debug({
        op: "process.end",
        sandboxId: sandbox.id,
        error: errorText(error),
      });
    }
  }

  #pump(
    events: AsyncGenerator<ProcessEvent, void>,
    start: ConstructorParameters<typeof Capture>[0],
  ): Capture {
    const capture = new Capture(start);
    this.#table.set(keyOf(start.sandbox.id, start.pid), capture);
    this.#track(this.#take(events, capture));
    return capture;
  }

  async #take(events: AsyncGenerator<ProcessEvent, void>, capture: Capture): Promise<void> {
    const { logs, clock } = this.#options;
    const { processId, sandbox } = capture;
    let state: ProcessState | undefined;
    try {
      for await (const event of events) {
        if (event.type === "data") {
          logs.output(sandbox.id, processId, event);
          capture.append(event.stream, event.bytes);
        } else if (event.type === "end") {
          state = { kind: "ended", exitCode: event.exitCode, reason: event.status };
        }
      }
    } catch (error) {
      state ??= brokenState(error);
    }
    state ??= brokenState(new SandboxError("unavailable", "the stream ended too soon"));
    capture.finish(state, clock.now());
    logs.note(sandbox.id, processId, describeEnd(state));
    logs.finish(sandbox.id, processId);
  }

  #track(work: Promise<void>): void {
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }
}

function keyOf(sandboxId: string, pid: number): string {
  return `${sandboxId}/${pid}`;
}

/** The pid of the first event; whatever comes before it is not for us. */
async function pidOf(events: AsyncGenerator<ProcessEvent, void>): Promise<number> {
  const { value, done } = await events.next();
  if (done !== true && value.type === "start") return value.pid;
  await events.return();
  throw new SandboxError("unavailable", "the process stream did not begin with a start");
}

/** The daemon ends a stream at the process's own time limit, and the process with it. */
function brokenState(error: unknown): ProcessState {
  const failure = toSandboxError(error, "process stream");
  return failure.code === "deadline_exceeded"
    ? { kind: "timed_out" }
    : { kind: "lost", error: failure };
}

function describeEnd(state: ProcessState): string {
  switch (state.kind) {
    case "running":
      return "runs";
    case "ended":
      return `ended: exit_code ${state.exitCode}`;
    case "timed_out":
      return "ended: killed at its time limit";
    case "lost":
      return `lost: ${state.error.code}`;
    default:
      return state satisfies never;
  }
}

/** A signal that fires after a while by the given clock. */
export function timeLimit(clock: Clock, ms: number, signal: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const fire = () => controller.abort();
  // An aborted wait has nothing left to limit.
  void clock.sleep(ms, signal).then(fire, fire);
  return controller.signal;
}
