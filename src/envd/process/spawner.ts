/**
 * Starts programs on pipes through `spawner.pl`: a small process, whose memory is copied in a moment
 * for each of them, and their parent, which tells how they ended.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, rmSync } from "node:fs";
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
import { watchSilence, type SilenceOptions, type SilenceWatch } from "./silence.ts";

/** A started program with the descriptors of its pipes, which its caller closes. */
export interface Spawned {
  readonly pid: number;
  /** Undefined for one that was started without input. */
  readonly stdin: number | undefined;
  readonly stdout: number;
  readonly stderr: number;
  /** Resolves when it has ended; never rejects. */
  readonly exited: Promise<Outcome>;
}

export interface Spawner extends Disposable {
  /** Starts the process now, so that the first program has not to wait for it. */
  prepare(): Promise<void>;
  /** @throws Error of the system, SandboxError unavailable, deadline_exceeded */
  start(launch: Launch, hasInput: boolean): Promise<Spawned>;
  /** Ends the process; programs go on. */
  [Symbol.dispose](): void;
}

const NAME = "spawner of processes";
/** Orders beyond that wait, as their launches, until the spawner has read more; a large order is 1.5 MB. */
const MAX_UNREAD_BYTES = 1_048_576;
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
    start: async (launch, hasInput) => running().start(launch, hasInput),
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
  readonly #unsent: (() => Buffer)[] = [];
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

  async start(launch: Launch, hasInput: boolean): Promise<Spawned> {
    const [first, second] = this.#options.parents;
    try {
      return await this.#startIn(first, launch, hasInput);
    } catch (error) {
      // The sandbox may have removed or filled it.
      if (!(error instanceof Error && error.message === PIPE_STEP)) throw error;
      return this.#startIn(second, launch, hasInput);
    }
  }

  async #startIn(parent: string, launch: Launch, hasInput: boolean): Promise<Spawned> {
    this.#lastId += 1;
    const id = `${this.#lastId}`;
    const pipes = join(parent, `envd-${randomUUID()}`);
    try {
      const order = () => encodeOrder("s", [id, pipes, hasInput ? 1 : "", ...launchFields(launch)]);
      const { pid, exited } = await this.#order(id, order);
      return { pid, exited, ...openPipes(pipes, hasInput, () => killProcess(pid, "SIGKILL")) };
    } finally {
      this.#send(() => encodeOrder("c", [id]));
      // Here, since a spawner that is killed now would leave it; one that has ended may still make it.
      if (this.hasEnded && !this.#isClosed) this.#child.once("close", () => removePipes(pipes));
      else removePipes(pipes);
    }
  }

  /** Ends it for good, and tells all who wait. */
  end(fault: Error = new SandboxError("unavailable", `the ${NAME} ended`)): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#unsent.length = 0;
    this.#child.kill("SIGKILL");
    this.#ready.reject(fault);
    for (const { reject } of this.#starting.values()) reject(fault);
    for (const [pid, resolve] of this.#running) void untilGone(pid).then(resolve);
  }

  async #order(id: string, order: () => Buffer): Promise<Started> {
    const started = Promise.withResolvers<Started>();
    this.#starting.set(id, started);
    this.#watch ??= watchSilence(this.#options, () =>
      this.end(new SandboxError("deadline_exceeded", `the ${NAME} does not answer`)),
    );
    this.#send(order);
    try {
      return await started.promise;
    } finally {
      this.#starting.delete(id);
      if (this.#starting.size === 0) this.#stopWatch();
    }
  }

  #stopWatch(): void {
    this.#watch?.[Symbol.dispose]();
    this.#watch = undefined;
  }

  #send(order: () => Buffer): void {
    this.#unsent.push(order);
    this.#sendMore();
  }

  #sendMore(): void {
    const { stdin } = this.#streams;
    if (stdin === undefined) return;
    while (!this.hasEnded && stdin.writableLength < MAX_UNREAD_BYTES) {
      const order = this.#unsent.shift();
      if (order === undefined) return;
      stdin.write(order(), () => this.#sendMore());
    }
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
    const [pid = 0] = numbers.map(Number);
    const starting = this.#starting.get(id);
    // Its caller has been told that it did not start.
    if (starting === undefined || this.hasEnded) return killProcess(pid, "SIGKILL");
    const { promise: exited, resolve } = Promise.withResolvers<Outcome>();
    this.#running.set(pid, resolve);
    starting.resolve({ pid, exited });
  }

  #onFailed([id = "", errno, ...what]: readonly string[]): void {
    const code = Number(errno) > 0 ? getSystemErrorName(-Number(errno)) : "EIO";
    this.#starting.get(id)?.reject(Object.assign(new Error(what.join(" ")), { code }));
  }

  #onEnded(word: string, [pid = 0, number = 0]: readonly number[]): void {
    const resolve = this.#running.get(pid);
    this.#running.delete(pid);
    resolve?.(word === "exit" ? toOutcome(number, null) : signalOutcome(number));
  }
}

/**
 * Our ends of the pipes, or none: what was started is killed then. Should both the spawner and the
 * program have ended, the open of an end must not wait for another one.
 */
function openPipes(
  directory: string,
  hasInput: boolean,
  kill: () => void,
): Pick<Spawned, "stdin" | "stdout" | "stderr"> {
  const opened: number[] = [];
  const open = (name: string, flags: number): number => {
    const descriptor = openSync(join(directory, name), flags | constants.O_NONBLOCK);
    opened.push(descriptor);
    // Root inside may have put something else there.
    if (!fstatSync(descriptor).isFIFO()) throw new Error("not a pipe");
    return descriptor;
  };
  try {
    return {
      stdin: hasInput ? open("in", constants.O_WRONLY) : undefined,
      stdout: open("out", constants.O_RDONLY),
      stderr: open("err", constants.O_RDONLY),
    };
  } catch (error) {
    for (const descriptor of opened) closeSync(descriptor);
    kill();
    throw error;
  }
}

function removePipes(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch {
    // What others have put there is theirs.
  }
}

/** Someone in the sandbox may kill the spawner: its programs go on, but nothing tells how they end. */
async function untilGone(pid: number): Promise<Outcome> {
  while (isAlive(pid)) await delay(ORPHAN_POLL_MS, undefined, { ref: false });
  return UNKNOWN_END;
}
