/** One started process: its pipes, its readers, its end. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { Readable } from "node:stream";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { SandboxError, causeCode } from "../../common/errors.ts";
import type { ProcessConfig, ProcessEventSchema } from "../../gen/process/process_pb.ts";
import { errnoText } from "../errno.ts";
import { createFanOut, type FanOut, type Subscription } from "./fan-out.ts";
import { createInput, type ProcessInput } from "./input.ts";
import type { Launch } from "./launch.ts";
import { toOutcome, type Outcome } from "./outcome.ts";

export type ProcessEvent = MessageInitShape<typeof ProcessEventSchema>;

export interface StartOptions {
  readonly config: ProcessConfig;
  readonly launch: Launch;
  readonly tag: string | undefined;
  readonly hasInput: boolean;
  /** After this many milliseconds the process is killed; undefined for no limit. */
  readonly timeoutMs: number | undefined;
}

/** What went through the pipes, in bytes. */
export interface Traffic {
  stdout: number;
  stderr: number;
}

/** No event carries more output than this. */
const MAX_CHUNK_BYTES = 32_768;
/** What a killed process left in its pipes may still arrive for this long. */
const LAST_OUTPUT_MS = 20;
/** User processes go first when memory runs out; the daemon and its pipes stay. */
const OOM_SCORE = "100";
/** Failures to start for which the sandbox's own limits are the reason. */
const EXHAUSTED: ReadonlySet<string> = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"]);

/** A process from its start to the end of its output. */
export class RunningProcess {
  readonly pid: number;
  readonly config: ProcessConfig;
  readonly tag: string | undefined;
  readonly input: ProcessInput;
  readonly traffic: Traffic = { stdout: 0, stderr: 0 };
  /** Resolves once the last event was given out; never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #child: ChildProcess;
  readonly #readers: FanOut<ProcessEvent>;
  readonly #end = Promise.withResolvers<Outcome>();
  /** How it ended, as soon as that is known; its output may still be open then. */
  #outcome: Outcome | undefined;
  #isCut = false;

  /** @throws SandboxError invalid_argument, resource_exhausted when it cannot be started. */
  static async start(options: StartOptions): Promise<{
    readonly running: RunningProcess;
    /** Subscribed before the first output; misses nothing. */
    readonly subscription: Subscription<ProcessEvent>;
  }> {
    const child = spawnChild(options);
    if (child.pid === undefined) {
      const [error] = await once(child, "error");
      throw startFault(options.config, error);
    }
    const running = new RunningProcess(child, child.pid, options);
    return { running, subscription: running.subscribe() };
  }

  private constructor(child: ChildProcess, pid: number, options: StartOptions) {
    this.pid = pid;
    this.config = options.config;
    this.tag = options.tag;
    this.#child = child;
    this.input = createInput(child.stdin, pid);
    this.ended = this.#end.promise;
    this.#readers = createFanOut(
      {
        pause: () => this.#eachOutput((output) => output.pause()),
        resume: () => this.#eachOutput((output) => output.resume()),
      },
      () => performance.now(),
    );
    this.#readOutput(child.stdout, "stdout");
    this.#readOutput(child.stderr, "stderr");
    // A signal that comes too late; the end is told by the other events.
    child.on("error", () => undefined);
    child.on("exit", (code, signal) => this.#onExit(toOutcome(code, signal)));
    child.on("close", () => this.#finish());
    if (options.timeoutMs !== undefined) this.#killAfter(options.timeoutMs);
    preferForOom(pid);
  }

  subscribe(): Subscription<ProcessEvent> {
    return this.#readers.subscribe();
  }

  /** @throws SandboxError internal when the process has ended and only its output is open. */
  signal(name: "SIGTERM" | "SIGKILL"): void {
    if (this.#outcome !== undefined) {
      throw new SandboxError("internal", "error sending signal: os: process already finished");
    }
    this.#isCut = true;
    this.#child.kill(name);
  }

  /** Kills the process if it still lives. */
  kill(): void {
    this.#isCut = true;
    this.#child.kill("SIGKILL");
  }

  #readOutput(output: Readable | null, name: "stdout" | "stderr"): void {
    output?.on("data", (chunk: Buffer) => {
      this.traffic[name] += chunk.length;
      for (let start = 0; start < chunk.length; start += MAX_CHUNK_BYTES) {
        const value = chunk.subarray(start, start + MAX_CHUNK_BYTES);
        const event: ProcessEvent = {
          event: { case: "data", value: { output: { case: name, value } } },
        };
        this.#readers.publish(event, value.length);
      }
      // Node lets a paused stream flow when the process exits; its readers are still full then.
      if (this.#readers.isPaused) output.pause();
    });
    // A broken pipe ends the output; `close` follows and tells the end.
    output?.on("error", () => undefined);
  }

  #eachOutput(action: (output: Readable) => void): void {
    for (const output of [this.#child.stdout, this.#child.stderr]) {
      if (output !== null && !output.destroyed) action(output);
    }
  }

  #killAfter(timeoutMs: number): void {
    const timer = setTimeout(() => {
      if (this.#outcome === undefined) this.kill();
      else this.#finish("context deadline exceeded");
    }, timeoutMs);
    // Resolves always.
    void this.ended.then(() => clearTimeout(timer));
  }

  #onExit(outcome: Outcome): void {
    this.#outcome = outcome;
    // Whoever was told to end may leave children behind that hold the pipes open.
    if (this.#isCut) setTimeout(() => this.#finish(), LAST_OUTPUT_MS);
  }

  #finish(error?: string): void {
    const outcome = this.#outcome;
    if (outcome === undefined) return;
    this.#outcome = error === undefined ? outcome : { ...outcome, error };
    this.#eachOutput((output) => output.destroy());
    this.#readers.finish({ event: { case: "end", value: this.#outcome } });
    this.#end.resolve(this.#outcome);
  }
}

function spawnChild({ config, launch, hasInput }: StartOptions): ChildProcess {
  try {
    return spawn(launch.file, launch.args, {
      cwd: launch.cwd,
      env: launch.env,
      stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe"],
      ...launch.ids,
    });
  } catch (error) {
    throw startFault(config, error);
  }
}

/** At once, so that the children of the process inherit it; the kernel's own file never blocks. */
function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE);
  } catch (error) {
    // Only a preference: the process may be gone already, or the kernel may not let us say it.
    if (causeCode(error) === undefined) throw error;
  }
}

function startFault(config: ProcessConfig, error: unknown): SandboxError {
  const command = [config.cmd, ...config.args].join(" ");
  const message = `error starting process '${command}': fork/exec /bin/sh: ${errnoText(error)}`;
  const code = EXHAUSTED.has(causeCode(error) ?? "") ? "resource_exhausted" : "invalid_argument";
  return new SandboxError(code, message, { cause: error });
}
