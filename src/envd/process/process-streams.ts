/** A process as the system runs it, behind one face: with pipes here, with a terminal elsewhere. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, fchownSync } from "node:fs";
import { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { SandboxError } from "../../common/errors.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import type { OutputName } from "../../rpc/process-events.ts";
import { errnoText } from "../errno.ts";
import { isExhausted } from "../helper-fault.ts";
import { commandText, type Launch } from "./launch.ts";
import { toOutcome, type Outcome } from "./outcome.ts";
import { closePipe, type Pipe, type PipeSource } from "./pipes.ts";

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
  readonly pipes: PipeSource;
}

/** Starts a process with pipes. @throws SandboxError invalid_argument, resource_exhausted */
export async function startPiped(options: PipedOptions): Promise<ProcessStreams> {
  const { config } = options;
  const command = commandText(config);
  const subject = `error starting process '${command}': fork/exec /bin/sh`;
  const taken: Pipe[] = [];
  try {
    const stdin = options.hasInput ? await takePipe(options, taken) : undefined;
    const stdout = await takePipe(options, taken);
    const stderr = await takePipe(options, taken);
    const ends = { stdin: stdin?.reader, stdout: stdout.writer, stderr: stderr.writer };
    const { child, pid } = await spawnChild(options.launch, ends);
    for (const end of Object.values(ends)) if (end !== undefined) closeSync(end);
    return pipedCarrier(child, pid, {
      input: stdin && new Socket({ fd: stdin.writer, readable: false, writable: true }),
      stdout: new Socket({ fd: stdout.reader, readable: true, writable: false }),
      stderr: new Socket({ fd: stderr.reader, readable: true, writable: false }),
    });
  } catch (error) {
    for (const pipe of taken) closePipe(pipe);
    throw startFault(subject, error);
  }
}

/** A pipe whose inner end belongs to the process's user, who may open it again by path. */
async function takePipe({ pipes, launch }: PipedOptions, taken: Pipe[]): Promise<Pipe> {
  const pipe = await pipes.take();
  taken.push(pipe);
  const { identity } = launch;
  if (identity !== undefined) fchownSync(pipe.reader, identity.uid, identity.gid);
  return pipe;
}

async function spawnChild(
  launch: Launch,
  ends: { readonly stdin: number | undefined; readonly stdout: number; readonly stderr: number },
): Promise<{ readonly child: ChildProcess; readonly pid: number }> {
  const child = spawn(launch.file, launch.args, {
    cwd: launch.cwd,
    env: launch.env,
    stdio: [ends.stdin ?? "ignore", ends.stdout, ends.stderr],
    ...launch.ids,
  });
  if (child.pid !== undefined) return { child, pid: child.pid };
  const [error] = await once(child, "error");
  throw error;
}

interface Streams {
  readonly input: Socket | undefined;
  readonly stdout: Socket;
  readonly stderr: Socket;
}

function pipedCarrier(child: ChildProcess, pid: number, streams: Streams): ProcessStreams {
  const { input, stdout, stderr } = streams;
  const exited = Promise.withResolvers<Outcome>();
  // A signal that comes too late; the end is told by the other events.
  child.on("error", () => undefined);
  child.on("exit", (code, signal) => {
    input?.destroy();
    exited.resolve(toOutcome(code, signal));
  });
  const ends = [stdout, stderr].map(async (stream) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.once("close", () => resolve());
    await promise;
  });
  const outputs: Output[] = [
    { name: "stdout", stream: stdout },
    { name: "stderr", stream: stderr },
  ];
  return {
    pid,
    input: input ?? null,
    outputs,
    exited: exited.promise,
    closed: Promise.all([exited.promise, ...ends]).then(() => undefined),
    kill: (signal) => void child.kill(signal),
    release() {
      for (const { stream } of outputs) stream.destroy();
    },
    resize: undefined,
  };
}

/** A failure of the system to start something, told as the wire tells it. */
export function startFault(subject: string, error: unknown): SandboxError {
  const code = isExhausted(error) ? "resource_exhausted" : "invalid_argument";
  return new SandboxError(code, `${subject}: ${errnoText(error)}`, { cause: error });
}
