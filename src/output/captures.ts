/** The captures of a server. Output is taken as it arrives: a slow host never blocks a process. */

import type { Sandbox } from "../client/envd.ts";
import type { ProcessRequest } from "../client/process.ts";
import { anySignal } from "../common/any-signal.ts";
import { orCanceled, throwIfCanceled } from "../common/or-canceled.ts";
import type { Spools } from "../spool/spools.ts";
import { Capture, formatProcessId, timeLimit, type ProcessView } from "./capture.ts";
import {
  followProcess,
  isReplaced,
  markMissing,
  readPid,
  tooManyFollowed,
  type FollowOptions,
  type ProcessEvents,
} from "./follow-process.ts";
import { PROCESS_LIMITS, ProcessOutput } from "./process-output.ts";
import { openStored, type StoredProcess } from "./stored-process.ts";
import { takeOverOutput } from "./take-over.ts";

/** Processes captured at once; each holds a connection and up to 1.3 MiB. */
const MAX_RUNNING = 128;
/** How long the output of an ended process is kept. */
const RETENTION_MS = 15 * 60_000;
const MAX_ENDED = 256;
/** In memory; the disk keeps more. */
const MAX_ENDED_BYTES = 8 * 1024 * 1024;
/** How long the end of a process that no longer runs may be on its way. */
const END_WAIT_MS = 5_000;
/** Between SIGTERM and SIGKILL. */
const GRACE_MS = 2_000;

export interface CapturesOptions extends Omit<FollowOptions, "signal"> {
  readonly spools: Spools;
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

/** The processes that this server watches, and those that ended within the retention time. */
export class Captures implements AsyncDisposable {
  readonly #options: CapturesOptions;
  readonly #table = new Map<string, Capture>();
  readonly #stop = new AbortController();
  readonly #work = new Set<Promise<void>>();
  readonly #attaching = new Map<string, Promise<ProcessView>>();
  /** Starts and attaches under way, which have no capture yet. */
  #starting = 0;
  /** Each has a stream. A daemon that gives one pid twice leaves only the newer one in the table. */
  #followed = 0;

  constructor(options: CapturesOptions) {
    this.#options = options;
  }

  /** Those of a sandbox whose process is in a state, in the order of their start. */
  inState(sandboxId: string, kind: "running" | "lost"): readonly Capture[] {
    const all = [...this.#table.values()];
    return all.filter((each) => each.sandboxId === sandboxId && each.state.kind === kind);
  }

  /** The capture of a process that runs or ended within the retention time. */
  find(sandboxId: string, pid: number): Capture | undefined {
    this.#expire();
    return this.#table.get(keyOf(sandboxId, pid));
  }

  /** The spool of a process, whichever server wrote it; undefined when there is none. */
  async recall(sandboxId: string, pid: number): Promise<StoredProcess | undefined> {
    const { spools, clock } = this.#options;
    const found = await spools.find({ sandboxId, name: formatProcessId(pid) });
    return found && openStored({ spools, clock, found });
  }

  /**
   * Starts a process and takes its output until its end.
   * @throws SandboxError what the daemon refused, canceled, resource_exhausted for too many.
   */
  async start(sandbox: Sandbox, start: StartRequest): Promise<Capture> {
    this.#requireSlot();
    throwIfCanceled(start.signal);
    const { signal } = this.#stop;
    const { label, request, user, timeoutMs } = start;
    const events = sandbox.process.start(request, { signal, user, timeoutMs });
    const { clock } = this.#options;
    const startedAtMs = clock.now();
    const limitAtElapsedMs = timeoutMs === undefined ? undefined : clock.elapsed() + timeoutMs;
    const pid = await this.#counted(this.#pidOrCanceled(events, sandbox, start.signal));
    this.#options.logs.note(sandbox.id, formatProcessId(pid), `started: ${label}`);
    const output = this.#newOutput(sandbox.id, pid, false);
    const command = [request.cmd, ...request.args].join(" ");
    const times = { startedAtMs, limitAtElapsedMs, isAttached: false };
    return this.#follow(events, new Capture({ sandbox, pid, command, output, ...times }));
  }

  /**
   * Captures a process that runs already, from now on; continues the spool of a server that is dead
   * or lost it. Where another server was faster, the process is read from its spool.
   * @throws SandboxError not_found when there is no such process.
   */
  async attach(sandbox: Sandbox, pid: number): Promise<ProcessView> {
    const key = keyOf(sandbox.id, pid);
    const known = this.find(sandbox.id, pid);
    if (known !== undefined && known.state.kind !== "lost") return known;
    const underWay = this.#attaching.get(key);
    if (underWay !== undefined) return underWay;
    this.#requireSlot();
    const attaching = this.#attach(sandbox, pid).finally(() => this.#attaching.delete(key));
    this.#attaching.set(key, attaching);
    return attaching;
  }

  /**
   * Whether a process that this server lost has ended, since another one has its pid now. It counts as
   * ended from then on.
   */
  async endReplaced(lost: Capture): Promise<boolean> {
    if (lost.state.kind !== "lost") return false;
    if (!(await isReplaced(lost, this.#stop.signal))) return false;
    lost.finish({ kind: "unwatched" }, lost.endedAtMs ?? this.#options.clock.now());
    return true;
  }

  /** Ends a process: SIGTERM, a grace period, SIGKILL. Its children can survive. */
  async terminate(capture: Capture): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    const { sandbox, pid } = capture;
    const send = async (name: "SIGTERM" | "SIGKILL") =>
      sandbox.process.sendSignal(pid, name, signal);
    await this.#tryToSend(sandbox, async () => send("SIGTERM"));
    const deadline = anySignal([signal, timeLimit(clock, GRACE_MS, signal)]);
    await capture.ended(deadline);
    if (capture.state.kind === "running" && !signal.aborted) {
      await this.#tryToSend(sandbox, async () => capture.sendKill(async () => send("SIGKILL")));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#work);
  }

  #newOutput(sandboxId: string, pid: number, isLate: boolean): ProcessOutput {
    const key = { sandboxId, name: formatProcessId(pid), isLate };
    return new ProcessOutput(this.#options.spools.create(key, PROCESS_LIMITS));
  }

  async #attach(sandbox: Sandbox, pid: number): Promise<ProcessView> {
    const events = sandbox.process.connect(pid, this.#stop.signal);
    let found: { readonly capture: Capture } | { readonly view: ProcessView };
    try {
      found = await this.#counted(this.#prepare(events, sandbox, pid));
    } catch (error) {
      await events.return();
      throw error;
    }
    if ("capture" in found) return this.#settled(this.#follow(events, found.capture));
    await events.return();
    return found.view;
  }

  /** The capture that is to take the output, or what needs none. */
  async #prepare(events: ProcessEvents, sandbox: Sandbox, pid: number) {
    await readPid(events);
    const { clock, logs } = this.#options;
    const lost = this.#table.get(keyOf(sandbox.id, pid));
    if (lost !== undefined && (await this.endReplaced(lost))) return { view: lost };
    // What the disk did not take is in memory alone.
    const hasFailed = lost?.output.failure !== undefined;
    const taken = hasFailed ? undefined : await takeOverOutput(this.#options, sandbox, pid);
    const watched = taken === undefined ? await this.recall(sandbox.id, pid) : undefined;
    if (watched?.isWatched === true) return { view: watched };
    const known = taken ?? lost;
    if (known !== undefined) {
      known.resume();
      markMissing(known, logs);
      return { capture: known };
    }
    logs.note(sandbox.id, formatProcessId(pid), "was running already");
    const output = this.#newOutput(sandbox.id, pid, true);
    const start = { sandbox, pid, startedAtMs: clock.now(), isAttached: true, output };
    return { capture: new Capture(start) };
  }

  /** The capture once it knows the end of a process that ended before it was watched. */
  async #settled(capture: Capture): Promise<Capture> {
    const { sandbox, pid } = capture;
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    try {
      const running = await sandbox.process.list(signal);
      if (running.some((process) => process.pid === pid)) return capture;
    } catch (error) {
      log.debug({ op: "process.list", sandboxId: sandbox.id, err: error });
      return capture;
    }
    await capture.ended(timeLimit(clock, END_WAIT_MS, signal));
    return capture;
  }

  #requireSlot(): void {
    this.#expire();
    if (this.#followed + this.#starting < MAX_RUNNING) return;
    throw tooManyFollowed(MAX_RUNNING);
  }

  async #counted<T>(starting: Promise<T>): Promise<T> {
    this.#starting += 1;
    try {
      return await starting;
    } finally {
      this.#starting -= 1;
    }
  }

  #expire(): void {
    const now = this.#options.clock.elapsed();
    const ended = [...this.#table.entries()]
      .filter(([, { endedAtMs }]) => endedAtMs !== undefined)
      .map(([key, capture]) => ({ key, capture, endMs: capture.endedAtElapsedMs ?? now }))
      .toSorted((left, right) => right.endMs - left.endMs);
    let bytes = 0;
    for (const [index, { key, capture, endMs }] of ended.entries()) {
      bytes += capture.output.heldBytes;
      const isOld = now - endMs > RETENTION_MS;
      if (!isOld && index < MAX_ENDED && bytes <= MAX_ENDED_BYTES) continue;
      this.#table.delete(key);
    }
  }

  /** The pid. Where the call is cancelled before it is known, the process is killed. */
  async #pidOrCanceled(
    events: ProcessEvents,
    sandbox: Sandbox,
    signal: AbortSignal,
  ): Promise<number> {
    const first = readPid(events);
    try {
      return await orCanceled(first, signal);
    } catch (error) {
      if (signal.aborted) this.#track(this.#endOrphan(first, events, sandbox));
      throw error;
    }
  }

  /** However late it starts: the stream itself ends where no start comes in time. */
  async #endOrphan(first: Promise<number>, events: ProcessEvents, sandbox: Sandbox): Promise<void> {
    const { log } = this.#options;
    try {
      const pid = await first;
      await sandbox.process.sendSignal(pid, "SIGKILL", this.#stop.signal);
    } catch (error) {
      log.debug({ op: "process.orphan", sandboxId: sandbox.id, err: error });
    }
    // No call reads it, which would hold its connection.
    await events.return();
  }

  async #tryToSend(sandbox: Sandbox, send: () => Promise<void>): Promise<void> {
    try {
      await send();
    } catch (error) {
      // The process may have ended meanwhile, or its sandbox.
      this.#options.log.debug({ op: "process.end", sandboxId: sandbox.id, err: error });
    }
  }

  #follow(events: ProcessEvents, capture: Capture): Capture {
    const key = keyOf(capture.sandboxId, capture.pid);
    // A pid is used again: the new process comes after those that run.
    if (this.#table.get(key) !== capture) this.#table.delete(key);
    this.#table.set(key, capture);
    this.#followed += 1;
    const options = { ...this.#options, signal: this.#stop.signal };
    const end = () => {
      this.#followed -= 1;
      capture.endedAtElapsedMs = this.#options.clock.elapsed();
    };
    this.#track(followProcess(events, capture, options).finally(end));
    return capture;
  }

  #track(work: Promise<void>): void {
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }
}

function keyOf(sandboxId: string, pid: number): string {
  return `${sandboxId}/${pid}`;
}
