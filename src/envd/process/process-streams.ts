/** A process as the system runs it, behind one face: with pipes here, with a terminal elsewhere. */

import { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { SandboxError } from "../../common/errors.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import type { OutputName } from "../../rpc/process-events.ts";
import { errnoText } from "../errno.ts";
import { isExhausted } from "../helper-fault.ts";
import { killProcess } from "./kill.ts";
import { commandText, type Launch } from "./launch.ts";
import type { Outcome } from "./outcome.ts";
import type { Spawned, Spawner } from "./spawner.ts";

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface ProcessStreams {
  /** Of the command itself. */
  readonly pid: number;
  /** What the process reads; null when it was started without. */
  readonly input: Writable | null;
  readonly outputs: readonly Output[];
  /** Resolves when the process has ended; never rejects. */
  readonly exited: Promise<Outcome>;
  /** Resolves after that, when nothing can come from it any more; never rejects. */
  readonly closed: Promise<void>;
  /** Sends a signal to the process itself, if it still lives. */
  kill(signal: "SIGTERM" | "SIGKILL"): void;
  /** Lets go of everything that is still open. */
  release(): void;
  /** Undefined for a process without a terminal. */
  readonly resize: ((size: TerminalSize) => void) | undefined;
}

export interface Output {
  readonly name: OutputName;
  readonly stream: Readable;
}

interface PipedOptions {
  readonly config: ProcessConfig;
  readonly launch: Launch;
  readonly hasInput: boolean;
  readonly spawner: Spawner;
  readonly signal: AbortSignal;
}

/**
 * Starts a process with pipes.
 * @throws SandboxError invalid_argument, resource_exhausted, unavailable, deadline_exceeded; the
 * signal's reason
 */
export async function startPiped(options: PipedOptions): Promise<ProcessStreams> {
  const { config, launch, hasInput, spawner, signal } = options;
  let spawned: Spawned;
  try {
    spawned = await spawner.start(launch, { hasInput, signal });
  } catch (error) {
    signal.throwIfAborted();
    throw startFault(`error starting process '${commandText(config)}': fork/exec /bin/sh`, error);
  }
  return pipedCarrier(spawned);
}

function pipedCarrier({ pid, stdin, stdout, stderr, exited }: Spawned): ProcessStreams {
  const input =
    stdin === undefined ? null : new Socket({ fd: stdin, readable: false, writable: true });
  const outputs: readonly (Output & { readonly stream: Socket })[] = [
    { name: "stdout", stream: new Socket({ fd: stdout, readable: true, writable: false }) },
    { name: "stderr", stream: new Socket({ fd: stderr, readable: true, writable: false }) },
  ];
  let isAlive = true;
  const onExit = () => {
    isAlive = false;
    input?.destroy();
  };
  // Resolves always.
  void exited.then(onExit);
  const ends = outputs.map(async ({ stream }) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.once("close", () => resolve());
    await promise;
  });
  return {
    pid,
    input,
    outputs,
    exited,
    closed: Promise.all([exited, ...ends]).then(() => undefined),
    kill(signal) {
      if (isAlive) killProcess(pid, signal);
    },
    release() {
      for (const { stream } of outputs) stream.destroy();
    },
    resize: undefined,
  };
}

/** A failure of the system to start something, told as the wire tells it. */
export function startFault(subject: string, error: unknown): SandboxError {
  if (error instanceof SandboxError) return error;
  const code = isExhausted(error) ? "resource_exhausted" : "invalid_argument";
  return new SandboxError(code, `${subject}: ${errnoText(error)}`, { cause: error });
}
