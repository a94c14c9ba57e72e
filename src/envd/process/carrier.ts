/** A process as the system runs it, behind one face: with pipes here, with a terminal elsewhere. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { SandboxError, causeCode } from "../../common/errors.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import { errnoText } from "../errno.ts";
import type { Launch } from "./launch.ts";
import { toOutcome, type Outcome } from "./outcome.ts";

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface Carrier {
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
  readonly name: "stdout" | "stderr" | "pty";
  readonly stream: Readable;
}

/** Failures to start for which the sandbox's own limits are the reason. */
const EXHAUSTED: ReadonlySet<string> = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ENOSPC"]);

/** Starts a process with pipes. @throws SandboxError invalid_argument, resource_exhausted */
export async function startPiped(options: {
  readonly config: ProcessConfig;
  readonly launch: Launch;
  readonly hasInput: boolean;
}): Promise<Carrier> {
  const { config, launch, hasInput } = options;
  const command = [config.cmd, ...config.args].join(" ");
  const subject = `error starting process '${command}': fork/exec /bin/sh`;
  let child: ChildProcess;
  try {
    child = spawn(launch.file, launch.args, {
      cwd: launch.cwd,
      env: launch.env,
      stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe"],
      ...launch.ids,
    });
  } catch (error) {
    throw startFault(subject, error);
  }
  if (child.pid === undefined) {
    const [error] = await once(child, "error");
    throw startFault(subject, error);
  }
  return pipedCarrier(child, child.pid);
}

function pipedCarrier(child: ChildProcess, pid: number): Carrier {
  const exited = Promise.withResolvers<Outcome>();
  const closed = Promise.withResolvers<void>();
  // A signal that comes too late; the end is told by the other events.
  child.on("error", () => undefined);
  child.on("exit", (code, signal) => exited.resolve(toOutcome(code, signal)));
  child.on("close", () => closed.resolve());
  const outputs: Output[] = [];
  if (child.stdout !== null) outputs.push({ name: "stdout", stream: child.stdout });
  if (child.stderr !== null) outputs.push({ name: "stderr", stream: child.stderr });
  return {
    pid,
    input: child.stdin,
    outputs,
    exited: exited.promise,
    closed: closed.promise,
    kill: (signal) => void child.kill(signal),
    release() {
      for (const { stream } of outputs) stream.destroy();
    },
    resize: undefined,
  };
}

/** A failure of the system to start something, told as the wire tells it. */
export function startFault(subject: string, error: unknown): SandboxError {
  const code = EXHAUSTED.has(causeCode(error) ?? "") ? "resource_exhausted" : "invalid_argument";
  return new SandboxError(code, `${subject}: ${errnoText(error)}`, { cause: error });
}
