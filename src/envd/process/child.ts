/** One started process: its input, its readers, its end. */

import { waitAtMost } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import {
  encodeEvent,
  encodeOutput,
  type Codec,
  type OutputName,
} from "../../rpc/process-events.ts";
import { createFanOut, type FanOut, type Subscription } from "./fan-out.ts";
import { createInput, type ProcessInput } from "./input.ts";
import type { Launch } from "./launch.ts";
import type { Outcome } from "./outcome.ts";
import type { OutputBudget } from "./output-budget.ts";
import {
  startPiped,
  type ProcessStreams,
  type Output,
  type TerminalSize,
} from "./process-streams.ts";
import { releaseBuffer } from "./release-buffer.ts";
import type { Spawner } from "./spawner.ts";
import { startOnTerminal, type TerminalOptions } from "./terminal.ts";
import { createWholeCharacters, type WholeCharacters } from "./whole-characters.ts";

export interface StartOptions {
  readonly config: ProcessConfig;
  readonly launch: Launch;
  readonly tag: string | undefined;
  /** Counts only without a terminal. */
  readonly hasInput: boolean;
  readonly spawner: Spawner;
  /** Of the client that starts it and reads its output. */
  readonly codec: Codec;
  readonly budget: OutputBudget;
  /** Undefined for pipes. */
  readonly terminal: Pick<TerminalOptions, "relay" | "size" | "silence"> | undefined;
  /** So many milliseconds after the call the process is killed; undefined for no limit. */
  readonly timeoutMs: number | undefined;
  /** Of the call that starts it: aborted at the time limit, or before that when the client leaves. */
  readonly signal: AbortSignal;
  /** Of the call that starts it; its lines in the log carry it. */
  readonly operationId: string;
}

/** What it has printed, in bytes. */
export type Traffic = Record<OutputName, number>;

/** So long a call waits for the end of a process that it has killed; one in the kernel ends later. */
const KILL_WAIT_MS = 1_000;
/** What a killed process left in its pipes may still arrive for this long. */
const LAST_OUTPUT_MS = 20;

type Event =
  | { readonly kind: "output"; readonly name: OutputName; readonly bytes: Buffer }
  | { readonly kind: "end"; readonly outcome: Outcome };

/** A process from its start to the end of its output. */
export class RunningProcess {
  readonly pid: number;
  readonly config: ProcessConfig;
  readonly tag: string | undefined;
  readonly input: ProcessInput;
  readonly traffic: Traffic = { stdout: 0, stderr: 0, pty: 0 };
  /** Resolves once the last event was given out; never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #carrier: ProcessStreams;
  readonly #readers: FanOut<Event>;
  readonly #characters: WholeCharacters[] = [];
  readonly #end = Promise.withResolvers<Outcome>();
  /** How it ended, as soon as that is known; its output may still be open then. */
  #outcome: Outcome | undefined;
  #isCut = false;

  /**
   * @throws SandboxError invalid_argument, resource_exhausted when it cannot be started; the reason of
   * a call that was over before
   */
  static async start(options: StartOptions): Promise<{
    readonly running: RunningProcess;
    /** Subscribed before the first output; misses nothing. */
    readonly subscription: Subscription;
  }> {
    const { terminal, ...rest } = options;
    const calledAtMs = performance.now();
    options.signal.throwIfAborted();
    const carrier =
      terminal === undefined
        ? await startPiped(rest)
        : await startOnTerminal({ ...rest, ...terminal });
    const running = new RunningProcess(carrier, { ...options, calledAtMs });
    return { running, subscription: running.subscribe(options.codec) };
  }

  private constructor(
    carrier: ProcessStreams,
    options: StartOptions & { readonly calledAtMs: number },
  ) {
    this.pid = carrier.pid;
    this.config = options.config;
    this.tag = options.tag;
    this.#carrier = carrier;
    const name = this.hasTerminal ? "tty" : "stdin";
    this.input = createInput(carrier.input, { pid: carrier.pid, name });
    this.ended = this.#end.promise;
    this.#readers = createFanOut({
      source: {
        pause: () => this.#eachOutput(({ stream }) => stream.pause()),
        resume: () => this.#eachOutput(({ stream }) => stream.resume()),
      },
      budget: options.budget,
      encode,
      now: () => performance.now(),
    });
    for (const output of carrier.outputs) this.#readOutput(output);
    // Both resolve always.
    void carrier.exited.then((outcome) => this.#onExit(outcome));
    void carrier.closed.then(() => this.#finish());
    const { timeoutMs, signal, calledAtMs } = options;
    // The start may have waited longer than that.
    const passedMs = performance.now() - calledAtMs;
    if (timeoutMs !== undefined) this.#killAfter(Math.max(0, timeoutMs - passedMs), signal);
  }

  get hasTerminal(): boolean {
    return this.#carrier.resize !== undefined;
  }

  /** Does nothing for a process without a terminal. */
  resize(size: TerminalSize): void {
    this.#carrier.resize?.(size);
  }

  subscribe(codec: Codec): Subscription {
    return this.#readers.subscribe(codec);
  }

  /** @throws SandboxError internal when the process has ended and only its output is open. */
  signal(name: "SIGTERM" | "SIGKILL"): void {
    if (this.#outcome !== undefined) {
      throw new SandboxError("internal", "error sending signal: os: process already finished");
    }
    this.#isCut = true;
    this.#carrier.kill(name);
  }

  /** Waits until a process that was killed is gone, or for a second. */
  async waitForExit(): Promise<void> {
    await waitAtMost(this.#carrier.exited, KILL_WAIT_MS);
  }

  /** Kills the process if it still lives. */
  kill(): void {
    this.#isCut = true;
    this.#carrier.kill("SIGKILL");
  }

  #readOutput({ name, stream }: Output): void {
    const characters = createWholeCharacters((bytes) =>
      this.#readers.publish({ kind: "output", name, bytes }),
    );
    this.#characters.push(characters);
    stream.on("data", (bytes: Buffer) => {
      this.traffic[name] += bytes.length;
      characters.add(bytes);
      releaseBuffer(bytes);
      // Node lets a paused stream flow when the process exits; its readers are still full then.
      if (this.#readers.isPaused) stream.pause();
    });
    // A broken pipe ends the output; the carrier tells the end.
    stream.on("error", () => undefined);
  }

  #eachOutput(action: (output: Output) => void): void {
    for (const output of this.#carrier.outputs) {
      if (!output.stream.destroyed) action(output);
    }
  }

  #killAfter(timeoutMs: number, signal: AbortSignal): void {
    const end = () => {
      if (this.#outcome === undefined) this.kill();
      else this.#finish("context deadline exceeded");
    };
    const timer = setTimeout(() => {
      // Two timers of one limit: the stream meets its own first, so that it never shows the kill.
      if (signal.aborted) end();
      else signal.addEventListener("abort", end, { once: true });
    }, timeoutMs);
    const forget = async () => {
      await this.ended;
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    };
    void forget();
  }

  #onExit(outcome: Outcome): void {
    this.#outcome = outcome;
    // A process that was told to end may leave children behind that hold the pipes open.
    if (this.#isCut) setTimeout(() => this.#finish(), LAST_OUTPUT_MS);
  }

  #finish(error?: string): void {
    const outcome = this.#outcome;
    if (outcome === undefined) return;
    this.#outcome = error === undefined ? outcome : { ...outcome, error };
    this.#carrier.release();
    for (const characters of this.#characters) characters.flush();
    this.#readers.finish({ kind: "end", outcome: this.#outcome });
    this.#end.resolve(this.#outcome);
  }
}

function encode(event: Event, codec: Codec): Buffer {
  if (event.kind === "output") return encodeOutput(event.name, event.bytes, codec);
  return encodeEvent({ event: { case: "end", value: event.outcome } }, codec);
}
