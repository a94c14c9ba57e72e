/**
 * Starts programs on pipes through `spawner.pl`: a small process, whose memory is copied in a moment
 * for each of them, and their parent, which tells how they ended.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { getSystemErrorName } from "node:util";
import { SandboxError } from "../../common/errors.ts";
import { DEFAULT_PATH, type Command } from "../bundled-program.ts";
import type { HelperStreams } from "../helper-fault.ts";
import { isAlive, killProcess } from "./kill.ts";
import type { Launch } from "./launch.ts";
import { encodeOrder, launchFields } from "./order.ts";
import { signalOutcome, toOutcome, type Outcome } from "./outcome.ts";
import { openPipes, removePipes, type OpenPipes } from "./pipes.ts";
import { watchSilence, type SilenceOptions, type SilenceWatch } from "./silence.ts";

/** A started program with the descriptors of its pipes, which its caller closes. */
export interface Spawned extends OpenPipes {
  readonly pid: number;
  /** Resolves when it has ended; never rejects. */
  readonly exited: Promise<Outcome>;
}

export interface SpawnOptions {
  readonly hasInput: boolean;
  /** Of the call that wants the program. */
  readonly signal: AbortSignal;
}

export interface Spawner extends Disposable {
  /** Starts the process now, so that the first program has not to wait for it. */
  prepare(): Promise<void>;
  /**
   * Once the signal has fired, a program that waits for its turn is not started.
   * @throws Error of the system, SandboxError unavailable, deadline_exceeded, the signal's reason
   */
  start(launch: Launch, options: SpawnOptions): Promise<Spawned>;
  /** Ends the process; programs go on. */
  [Symbol.dispose](): void;
}

const NAME = "spawner of processes";
/** Orders beyond that wait, as their launches, until the spawner has read more; a large order is 1.5 MB. */
const MAX_UNREAD_BYTES = 1_048_576;
/** Starts beyond that wait for a report: what waits can still be given up. */
const MAX_UNREPORTED = 4;
/** Memory of a large order goes back to the system; glibc would raise this bound by the first one. */
const RETURNS_MEMORY = { MALLOC_MMAP_THRESHOLD_: "131072" };
/** How often a program is looked for whose parent is gone. */
const ORPHAN_POLL_MS = 250;
/** In memory, so that programs start on a full disk, too, or else on disk. */
const PARENTS = ["/dev/shm", tmpdir()] as const;
/** What the spawner calls the step that makes the pipes. */
const PIPE_STEP = "pipe";
const UNKNOWN_END: Outcome = {
  exitCode: -1,
  exited: false,
  status: "unknown",
  error: "the end of the process was not seen",
};

export interface SpawnerOptions extends SilenceOptions {
  /** Where pipes have their names, each start in a directory of its own; the second is for a fault. */
  readonly parents?: readonly [string, string];
}

/** Starts its process when it is needed first, and another one when that ended. */
export function createSpawner(command: Command, options: SpawnerOptions = {}): Spawner {
  const { parents = PARENTS, ...silence } = options;
  let current: SpawnerProcess | undefined;

  function running(): SpawnerProcess {
    if (current === undefined || current.hasEnded) {
      current = new SpawnerProcess(command, { ...silence, parents });
    }
    return current;
  }

  return {
    prepare: async () => running().ready,
    start: async (launch, how) => running().start(launch, how),
    [Symbol.dispose]: () => current?.end(),
  };
}

type ProcessOptions = SpawnerOptions & Required<Pick<SpawnerOptions, "parents">>;

interface Started {
  readonly pid: number;
  readonly exited: Promise<Outcome>;
}

class SpawnerProcess {
  hasEnded = false;
  readonly ready: Promise<void>;
  readonly #child: ChildProcess;
  readonly #streams: HelperStreams;
  readonly #ready = Promise.withResolvers<void>();
  readonly #starting = new Map<string, PromiseWithResolvers<Started>>();
  readonly #running = new Map<number, (outcome: Outcome) => void>();
  readonly #options: ProcessOptions;
  /** Starts that wait for their turn, by their ids. */
  readonly #unsent = new Map<string, () => Buffer>();
  /** Those that were handed over. */
  readonly #unreported = new Set<string>();
  #isClosed = false;
  #watch: SilenceWatch | undefined;
  #lastId = 0;

  constructor([file, ...before]: Command, options: ProcessOptions) {
    this.#options = options;
    const child = spawn(file, [...before, process.arch], {
      cwd: "/",
      env: { PATH: DEFAULT_PATH, LC_ALL: "C", ...RETURNS_MEMORY },
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#child = child;
    this.ready = this.#ready.promise;
    // Where no caller waits for it, its end is no error.
    this.ready.catch(() => undefined);
    // Whatever breaks ends it, and its end is told to all who wait.
    child.on("error", (error) => this.end(error));
    // After the last of its reports.
    child.on("close", () => {
      this.#isClosed = true;
      this.end();
    });
    const { stdin, stdout }: HelperStreams = child;
    this.#streams = { stdin, stdout };
    for (const stream of [stdin, stdout]) stream?.on("error", () => this.end());
    if (stdout === undefined) return;
    createInterface(stdout).on("line", (line) => this.#hear(line));
  }

  async start(launch: Launch, options: SpawnOptions): Promise<Spawned> {
    const [first, second] = this.#options.parents;
    try {
      return await this.#startIn(first, launch, options);
    } catch (error) {
      // The sandbox may have removed or filled it.
      if (!(error instanceof Error && error.message === PIPE_STEP)) throw error;
      return this.#startIn(second, launch, options);
    }
  }

  async #startIn(
    parent: string,
    launch: Launch,
    { hasInput, signal }: SpawnOptions,
  ): Promise<Spawned> {
    this.#lastId += 1;
    const id = `${this.#lastId}`;
    const pipes = join(parent, `envd-${randomUUID()}`);
    try {
      const order = () => encodeOrder("s", [id, pipes, hasInput ? 1 : "", ...launchFields(launch)]);
      const { pid, exited } = await this.#order(id, order, signal);
      return { pid, exited, ...openPipes(pipes, hasInput, () => killProcess(pid, "SIGKILL")) };
    } finally {
      if (!this.hasEnded) this.#streams.stdin?.write(encodeOrder("c", [id]));
      // Here, since a spawner that is killed now would leave it; one that has ended may still make it.
      if (this.hasEnded && !this.#isClosed) this.#child.once("close", () => removePipes(pipes));
      else removePipes(pipes);
    }
  }

  /** Ends it for good, and tells all who wait. */
  end(fault: Error = ended()): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#unsent.clear();
    this.#child.kill("SIGKILL");
    this.#ready.reject(fault);
    for (const { reject } of this.#starting.values()) reject(fault);
    for (const [pid, resolve] of this.#running) void untilGone(pid).then(resolve);
  }

  async #order(id: string, order: () => Buffer, signal: AbortSignal): Promise<Started> {
    signal.throwIfAborted();
    // It may have ended since a first try.
    if (this.hasEnded) throw ended();
    const started = Promise.withResolvers<Started>();
    const onAbort = () => {
      if (this.#unsent.delete(id)) started.reject(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#starting.set(id, started);
    this.#unsent.set(id, order);
    this.#watch ??= watchSilence(this.#options, () =>
      this.end(new SandboxError("deadline_exceeded", `the ${NAME} does not answer`)),
    );
    this.#sendMore();
    try {
      return await started.promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#starting.delete(id);
      if (this.#starting.size === 0) this.#stopWatch();
    }
  }

  #stopWatch(): void {
    this.#watch?.[Symbol.dispose]();
    this.#watch = undefined;
  }

  #sendMore(): void {
    const { stdin } = this.#streams;
    if (stdin === undefined) return;
    for (const [id, order] of this.#unsent) {
      const isFull = stdin.writableLength >= MAX_UNREAD_BYTES;
      if (this.hasEnded || isFull || this.#unreported.size >= MAX_UNREPORTED) return;
      this.#unsent.delete(id);
      this.#unreported.add(id);
      stdin.write(order(), () => this.#sendMore());
    }
  }

  /** The next start that waits has its turn after a report about another one. */
  #noteReported(id: string): void {
    this.#unreported.delete(id);
    this.#sendMore();
  }

  #hear(line: string): void {
    this.#watch?.reset();
    const [word = "", ...rest] = line.split(" ");
    if (word === "ready") this.#ready.resolve();
    else if (word === "started") this.#onStarted(rest);
    else if (word === "failed") this.#onFailed(rest);
    else this.#onEnded(word, rest.map(Number));
  }

  #onStarted([id = "", ...numbers]: readonly string[]): void {
    this.#noteReported(id);
    const [pid = 0] = numbers.map(Number);
    const starting = this.#starting.get(id);
    // Its caller has been told that it did not start.
    if (starting === undefined || this.hasEnded) return killProcess(pid, "SIGKILL");
    const { promise: exited, resolve } = Promise.withResolvers<Outcome>();
    this.#running.set(pid, resolve);
    starting.resolve({ pid, exited });
  }

  #onFailed([id = "", errno, ...what]: readonly string[]): void {
    this.#noteReported(id);
    const code = Number(errno) > 0 ? getSystemErrorName(-Number(errno)) : "EIO";
    this.#starting.get(id)?.reject(Object.assign(new Error(what.join(" ")), { code }));
  }

  #onEnded(word: string, [pid = 0, number = 0]: readonly number[]): void {
    const resolve = this.#running.get(pid);
    this.#running.delete(pid);
    resolve?.(word === "exit" ? toOutcome(number, null) : signalOutcome(number));
  }
}

function ended(): SandboxError {
  return new SandboxError("unavailable", `the ${NAME} ended`);
}

/** Someone in the sandbox may kill the spawner: its programs go on, but nothing tells how they end. */
async function untilGone(pid: number): Promise<Outcome> {
  while (isAlive(pid)) await delay(ORPHAN_POLL_MS, undefined, { ref: false });
  return UNKNOWN_END;
}
