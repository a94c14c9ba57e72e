/** The output of processes, taken as it comes, so that no slow host can hold a process up. */

import type { Sandbox } from "../client/envd.ts";
import type { ProcessEvent, ProcessRequest } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { Spools } from "../spool/spools.ts";
import { Capture, describeEnd, formatProcessId, timeLimit, type ProcessState } from "./capture.ts";
import type { SandboxLogs } from "./logs.ts";
import { PROCESS_LIMITS, ProcessOutput } from "./process-output.ts";
import { toNote } from "./quote.ts";
import { openStored, toEnding, type StoredProcess } from "./stored-process.ts";

/** Processes whose output is taken at once; each holds a connection and up to 1.3 MiB. */
const MAX_RUNNING = 128;
/** How long the output of an ended process is kept. */
const RETENTION_MS = 15 * 60_000;
const MAX_ENDED = 256;
/** In memory; the disk keeps more. */
const MAX_ENDED_BYTES = 8 * 1024 * 1024;
/** How long a cancelled start may take to tell the pid that must be ended. */
const ORPHAN_WAIT_MS = 5_000;
/** Between SIGTERM and SIGKILL. */
const GRACE_MS = 2_000;
/** Pauses before a broken stream is taken up again. */
const RECONNECT_DELAYS_MS: readonly number[] = [50, 500, 2_000];
/** What stands in the output where some may be missing. */
const MISSING = "[… what it wrote while its stream was broken is missing …]";

export interface CapturesOptions {
  readonly clock: Clock;
  readonly logs: SandboxLogs;
  readonly spools: Spools;
  readonly log: Logger;
  /** Whether a sandbox runs, so that to speak to it does not wake it. */
  isRunning(sandboxId: string, signal: AbortSignal): Promise<boolean>;
}

export interface StartRequest {
  /** The command as its caller wrote it. */
  readonly label: string;
  readonly request: ProcessRequest;
  readonly user: string | undefined;
  readonly timeoutMs: number | undefined;
  /** Ends the wait for the start, and the process with it; not the process once it runs. */
  readonly signal: AbortSignal;
}

type Events = AsyncGenerator<ProcessEvent, void>;

/** All processes whose output this server takes, and those that ended not long ago. */
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

  /** What this or another server left on the disk of a process; undefined for nothing. */
  async recall(sandboxId: string, pid: number): Promise<StoredProcess | undefined> {
    const { spools, clock } = this.#options;
    const found = await spools.find({ sandboxId, name: formatProcessId(pid) });
    return found && openStored({ spools, clock, found });
  }

  /**
   * Starts a process and takes its output until its end.
   * @throws SandboxError what the daemon refused, canceled, resource_exhausted for too many.
   */
  async start(sandbox: Sandbox, wish: StartRequest): Promise<Capture> {
    this.#makeRoom();
    const { signal } = this.#stop;
    const { request, user, timeoutMs } = wish;
    const events = sandbox.process.start(request, { signal, user, timeoutMs });
    const startedAtMs = this.#options.clock.now();
    const first = pidOf(events);
    const pid = await this.#orphaned(first, sandbox, wish.signal);
    this.#options.logs.note(sandbox.id, formatProcessId(pid), `started: ${wish.label}`);
    const output = this.#newOutput(sandbox.id, pid);
    return this.#pump(
      events,
      new Capture({ sandbox, pid, startedAtMs, isAttached: false, output }),
    );
  }

  /**
   * Takes the output of a process that something else started, from now on; goes on with the spool
   * of a server that died over it.
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

  #newOutput(sandboxId: string, pid: number): ProcessOutput {
    const key = { sandboxId, name: formatProcessId(pid) };
    return new ProcessOutput(this.#options.spools.create(key, PROCESS_LIMITS));
  }

  async #attach(sandbox: Sandbox, pid: number): Promise<Capture> {
    const events = sandbox.process.connect(pid, this.#stop.signal);
    await pidOf(events);
    const { clock, logs } = this.#options;
    const known = this.#table.get(keyOf(sandbox.id, pid)) ?? (await this.#takeOver(sandbox, pid));
    if (known !== undefined) {
      known.resume();
      this.#markMissing(known);
      return this.#pump(events, known);
    }
    logs.note(sandbox.id, formatProcessId(pid), "was running already");
    const output = this.#newOutput(sandbox.id, pid);
    const start = { sandbox, pid, startedAtMs: clock.now(), isAttached: true, output };
    return this.#pump(events, new Capture(start));
  }

  /** The output that a dead server left of a process that still runs. */
  async #takeOver(sandbox: Sandbox, pid: number): Promise<Capture | undefined> {
    const { spools } = this.#options;
    const found = await spools.find({ sandboxId: sandbox.id, name: formatProcessId(pid) });
    if (found === undefined || found.ending !== undefined || found.isLive) return undefined;
    const taken = await spools.takeOver(found.place, PROCESS_LIMITS);
    if (taken === undefined) return undefined;
    const output = new ProcessOutput(taken.writer, taken.extent);
    const startedAtMs = found.place.createdAtMs;
    return new Capture({ sandbox, pid, startedAtMs, isAttached: false, output });
  }

  #markMissing({ output, sandboxId, processId }: Capture): void {
    // A mark is short, and what follows it waits for the disk anyway.
    void output.append("note", toNote(MISSING));
    this.#options.logs.note(sandboxId, processId, "watched again; some output may be missing");
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
      .flatMap(([key, capture]) => {
        const { endedAtMs } = capture;
        return endedAtMs === undefined ? [] : [{ key, capture, endedAtMs }];
      })
      .toSorted((left, right) => right.endedAtMs - left.endedAtMs);
    let bytes = 0;
    for (const [index, { key, capture, endedAtMs }] of ended.entries()) {
      bytes += capture.output.heldBytes;
      const isOld = now - endedAtMs > RETENTION_MS;
      if (!isOld && index < MAX_ENDED && bytes <= MAX_ENDED_BYTES) continue;
      this.#table.delete(key);
      const { state, isAttached, output } = capture;
      // Nobody asked for what was lost: it will not be watched again.
      if (state.kind === "lost")
        this.#track(output.close(toEnding({ state, endedAtMs, isAttached })));
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
      log.debug({ op: "process.orphan", sandboxId: sandbox.id, err: error });
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
        err: error,
      });
    }
  }

  #pump(events: Events, capture: Capture): Capture {
    this.#table.set(keyOf(capture.sandboxId, capture.pid), capture);
    this.#track(this.#watch(events, capture));
    return capture;
  }

  /** Takes everything until the end, over as many streams as that needs. */
  async #watch(events: Events, capture: Capture): Promise<void> {
    let state = await this.#take(events, capture);
    while (state.kind === "lost" && !this.#stop.signal.aborted) {
      const again = await this.#reconnect(capture);
      if (again === undefined) break;
      this.#markMissing(capture);
      state = await this.#take(again, capture);
    }
    await this.#finish(capture, state);
  }

  async #finish(capture: Capture, state: ProcessState): Promise<void> {
    const { logs, clock } = this.#options;
    const { sandboxId, processId, isAttached, output } = capture;
    const endedAtMs = clock.now();
    capture.finish(state, endedAtMs);
    logs.note(sandboxId, processId, describeEnd(state));
    logs.finish(sandboxId, processId);
    if (output.failure !== undefined) {
      this.#options.log.warn({ op: "spool.write", sandboxId, err: output.failure });
    }
    // Of what is lost in a sandbox that lives this server or another one may hear again.
    if (state.kind === "lost" && !(await this.#isGone(sandboxId))) await output.park();
    else await output.close(toEnding({ state, endedAtMs, isAttached }));
  }

  async #isGone(sandboxId: string): Promise<boolean> {
    try {
      await this.#options.isRunning(sandboxId, this.#stop.signal);
      return false;
    } catch (error) {
      // Whether a service that does not answer still has it, nobody knows.
      return error instanceof SandboxError && error.code === "not_found";
    }
  }

  /** Takes one stream to its end; says how the process fares then. */
  async #take(events: Events, capture: Capture): Promise<ProcessState> {
    const { logs } = this.#options;
    let state: ProcessState | undefined;
    try {
      for await (const event of events) {
        if (event.type === "data") {
          logs.output(capture.sandboxId, capture.processId, event);
          await capture.append(event.stream, event.bytes);
        } else if (event.type === "end") {
          state = { kind: "ended", exitCode: event.exitCode, reason: event.status };
        }
      }
    } catch (error) {
      state ??= brokenState(error);
    }
    return state ?? brokenState(new SandboxError("unavailable", "the stream ended too soon"));
  }

  /** Another stream of a process; undefined when it ended or cannot be reached. */
  async #reconnect({ sandbox, pid }: Capture): Promise<Events | undefined> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    for (const delayMs of RECONNECT_DELAYS_MS) {
      try {
        await clock.sleep(delayMs, signal);
        if (!(await this.#options.isRunning(sandbox.id, signal))) return undefined;
        const events = sandbox.process.connect(pid, signal);
        await pidOf(events);
        return events;
      } catch (error) {
        if (signal.aborted || toSandboxError(error, "reconnect").code !== "unavailable") {
          return undefined;
        }
      }
    }
    return undefined;
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
async function pidOf(events: Events): Promise<number> {
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
