/** Runs one program of the host: argument vector, cleared environment, deadline, bounded output. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { anySignal } from "../../common/any-signal.ts";
import { errorText, isCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { PROGRAM_ENVIRONMENT } from "./find-program.ts";

/**
 * A program ends with this process: a mount that it made later would have no owner. The launcher
 * sees to that by itself.
 */
export const TIED: readonly [string, ...string[]] = ["setpriv", "--pdeathsig", "KILL"];
const TIES_ITSELF = "perl";

/** Programs here print a line or a short list; longer output is cut. */
const MAX_OUTPUT_BYTES = 256 * 1024;
const DEFAULT_TIMEOUT_MS = 30_000;

export interface ProgramOptions {
  /** Default 30 s; then the program and its process group are killed. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly cwd?: string;
  /** Of its standard output, of which the last ones are kept; default 256 KiB. */
  readonly maxOutputBytes?: number;
  /** What it reads from its standard input, which is open until that is known; default nothing. */
  readonly input?: string | Promise<string>;
  /** Called with each line of its standard error as it comes. */
  onLine?(line: string): void;
  /** Serves its standard streams, of which nothing is kept or given then; a fault ends the program. */
  serve?(program: RunningProgram): Promise<void>;
}

export interface RunningProgram {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
}

/**
 * Runs a program to its end and returns its standard output, at most `maxOutputBytes`.
 * @throws SandboxError unavailable when it fails, deadline_exceeded or canceled when it was ended.
 */
export async function runProgram(
  command: readonly [string, ...string[]],
  options: ProgramOptions = {},
): Promise<string> {
  const [file] = command;
  const timeout = signalAfter(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const stop = options.signal === undefined ? timeout : anySignal([timeout, options.signal]);
  if (stop.aborted) throw new SandboxError("canceled", `${file} was not run`);
  const [program, ...words] = file === TIES_ITSELF ? command : [...TIED, ...command];
  const child = await whenStarted(file, () =>
    spawn(program, words, {
      cwd: options.cwd,
      env: PROGRAM_ENVIRONMENT,
      stdio: ["pipe", "pipe", "pipe"],
      // A group of its own: at the deadline its helpers end with it.
      detached: true,
    }),
  );
  const stdout = createTail(options.maxOutputBytes);
  const stderr = createTail();
  if (options.serve === undefined) child.stdout.on("data", (chunk: Buffer) => stdout.add(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.add(chunk));
  // A program that ends without reading it all has said why in its own words.
  child.stdin.on("error", () => undefined);
  if (options.serve === undefined) void feed(child.stdin, options.input);
  if (options.onLine !== undefined) forwardLines(child.stderr, options.onLine.bind(options));
  const end = endOf(child);
  const kill = () => killGroup(child.pid);
  const { pid = 0, stdin } = child;
  const served = serveOf(options, { pid, stdin, stdout: child.stdout }, kill);
  stop.addEventListener("abort", kill, { once: true });
  // It may have come while the program was started.
  if (stop.aborted) kill();
  try {
    const failure = await end;
    const fault = await served;
    // Of a program that ended, a stream says only that it was cut.
    if (fault instanceof SandboxError) throw fault;
    if (failure === undefined && fault !== undefined) {
      throw new SandboxError("unavailable", `${file}: ${errorText(fault)}`, { cause: fault });
    }
    if (failure === undefined) return stdout.text();
    if (timeout.aborted) throw new SandboxError("deadline_exceeded", `${file} took too long`);
    if (stop.aborted) throw new SandboxError("canceled", `${file} was ended`);
    throw new SandboxError(
      "unavailable",
      describeFailure({ file, failure, stderr: stderr.text() }),
    );
  } finally {
    stop.removeEventListener("abort", kill);
  }
}

/**
 * The program once it has a process. Where Node lacks descriptors for its streams, it makes a child
 * that has none, and reports that later, by an event.
 * @throws SandboxError unavailable when it could not be started
 */
export async function whenStarted<Child extends ChildProcess>(
  subject: string,
  start: () => Child,
): Promise<Child> {
  try {
    const child = start();
    if (child.pid !== undefined) return child;
    const [fault] = await once(child, "error");
    throw fault;
  } catch (error) {
    throw toSandboxError(error, subject);
  }
}

/** Never fails: a rejection is the caller's own, and no word then. */
async function feed(stdin: Writable, input: ProgramOptions["input"]): Promise<void> {
  if (input instanceof Promise) stdin.end(await input.catch(() => ""));
  else stdin.end(input ?? "");
}

interface Tail {
  add(chunk: Buffer): void;
  text(): string;
}

/** Keeps the last bytes of a stream: the end of an error output is what explains it. */
function createTail(maxBytes = MAX_OUTPUT_BYTES): Tail {
  let kept: Buffer = Buffer.alloc(0);
  return {
    add: (chunk) => {
      kept = Buffer.concat([kept, chunk]).subarray(-maxBytes);
    },
    text: () => kept.toString("utf8"),
  };
}

function forwardLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): void {
  let rest = "";
  stream.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("utf8")).slice(-MAX_OUTPUT_BYTES).split(/[\r\n]+/);
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
}

/** Resolves with the fault, after which the program is ended. */
async function serveOf(
  options: ProgramOptions,
  program: RunningProgram,
  kill: () => void,
): Promise<unknown> {
  try {
    await options.serve?.(program);
    return undefined;
  } catch (error) {
    kill();
    return error;
  }
}

/** Resolves with undefined after a clean end, else with why it failed. */
function endOf(child: ReturnType<typeof spawn>): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  child.once("error", (error) => resolve(errorText(error)));
  child.once("close", (code, signal) => {
    if (code === 0) resolve(undefined);
    else resolve(signal === null ? `exit status ${code}` : `ended by ${signal}`);
  });
  return promise;
}

function describeFailure(end: {
  readonly file: string;
  readonly failure: string;
  readonly stderr: string;
}): string {
  const lines = end.stderr.split("\n").filter((line) => line.trim() !== "");
  const last = lines.slice(-2).join("; ");
  return last === "" ? `${end.file}: ${end.failure}` : `${end.file}: ${quoteUntrusted(last)}`;
}

/** Ends a whole process group; one that is gone already is no fault. */
export function killGroup(pid: number | undefined): void {
  if (pid !== undefined) signalProcess(-pid, "SIGKILL");
}

/** Signals a process, or by a negative number its group; one that is gone already is no fault. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!isCode(error, "ESRCH")) throw error;
  }
}
