/**
 * The logger of every module on the host side: pino on fd 2, never stdout. Errors are written as
 * type, code, message, hint, causes and stack: bounded, escaped and without keys.
 */

import { fstatSync, statSync, type Stats } from "node:fs";
import { isatty } from "node:tty";
import { type DestinationStream, type Logger as PinoLogger, pino } from "pino";
import { reasonsOf } from "./error-reasons.ts";
import { errorText, SandboxError } from "./errors.ts";
import { openNamedPipe } from "./named-pipe.ts";
import { quoteUntrusted } from "./untrusted-text.ts";

export type Logger = PinoLogger;

type DestinationOptions = Exclude<Parameters<typeof pino.destination>[0], string | number>;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LogOptions {
  readonly level: LogLevel;
  /** A second place for the same lines; for hosts that drop stderr. */
  readonly file?: string | undefined;
}

/** Header and field names whose values never reach a log line. */
const REDACTED = ["apiKey", "token", "*.apiKey", "*.token", "headers", "*.headers"];

/**
 * A logger that writes JSON lines to stderr and, if named, to a file.
 * @throws SandboxError invalid_argument when the file cannot be opened
 */
export function createLog(options: LogOptions): Logger {
  const stderr = openStderr();
  const settings = {
    level: options.level,
    redact: REDACTED,
    base: null,
    // Errors have this one key in every line.
    serializers: { err: describeError },
  };
  if (options.file === undefined) return pino(settings, stderr);
  const file = openFile(options.file);
  const streams = [stderr, file].map((stream) => ({ stream, level: options.level }));
  return pino(settings, pino.multistream(streams));
}

const STDERR = 2;
/** Lines that wait for the reader of a pipe; beyond it they are lost. */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * A synchronous write to a full pipe, or to a terminal that is stopped or whose connection hangs, would
 * stop this process until its reader goes on.
 */
function openStderr(): DestinationStream {
  if (isatty(STDERR)) return openTerminal();
  if (!isPipe(STDERR)) return openDestination({ fd: STDERR, sync: true });
  const { stderr } = process;
  stderr.off("error", ignoreError).on("error", ignoreError);
  return {
    write(line) {
      if (stderr.writableLength < MAX_WAITING_BYTES) stderr.write(line);
    },
  };
}

/** The terminal's own path may be one that another user has opened, or one of another mount. */
const STDERR_PATH = `/proc/self/fd/${STDERR}`;

function openTerminal(): DestinationStream {
  try {
    return openNamedPipe(STDERR_PATH, MAX_WAITING_BYTES);
  } catch {
    // Another user's, or no Linux.
    return openDestination({ fd: STDERR, sync: true });
  }
}

function isPipe(descriptor: number): boolean {
  let entry: Stats;
  try {
    entry = fstatSync(descriptor);
  } catch {
    // It is closed.
    return false;
  }
  return entry.isFIFO() || entry.isSocket();
}

/** Its reader is gone. */
function ignoreError(): void {}

function openFile(path: string): DestinationStream {
  try {
    if (hasReader(path)) return openNamedPipe(path, MAX_WAITING_BYTES);
    return openDestination({ dest: path, sync: true, mode: 0o600 });
  } catch (error) {
    throw new SandboxError("invalid_argument", `log file ${path}: ${errorText(error)}`, {
      cause: error,
      hint: "name a file in a directory that exists and is writable with --log-file",
    });
  }
}

/** Named pipes and terminals: each write waits for the reader. */
function hasReader(path: string): boolean {
  const entry = statSync(path, { throwIfNoEntry: false });
  return entry?.isFIFO() === true || entry?.isCharacterDevice() === true;
}

/** A line that cannot be written, as on a full disk, is lost and fails nothing. */
function openDestination(options: DestinationOptions): ReturnType<typeof pino.destination> {
  return pino.destination(options).on("error", () => undefined);
}

export function createSilentLog(): Logger {
  return pino({ level: "silent" });
}

/** Enough to find the place; what lies deeper is the platform's. */
const MAX_FRAMES = 16;
const MAX_FRAME_CHARACTERS = 256;
const MAX_CAUSES = 4;
/** Keys of the platform, wherever a text repeats one. */
const KEY_PATTERN = /e2b_[0-9a-f]{40}/gi;

export interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly hint?: string;
  /** Missing for failures that are foreseen: those of ours that are not `internal`. */
  readonly stack?: string;
  readonly causes?: readonly Omit<LoggedError, "stack" | "causes">[];
}

/** The form of anything that was thrown; further properties of an error are left out. */
export function describeError(error: unknown): LoggedError {
  const stack = stackOf(error);
  const causes = reasonsOf(error, MAX_CAUSES);
  return {
    ...describe(error),
    ...(stack !== undefined && { stack }),
    ...(causes.length > 0 && { causes: causes.map((cause) => describe(cause)) }),
  };
}

function describe(error: unknown): Omit<LoggedError, "stack" | "causes"> {
  if (!(error instanceof Error)) return { type: typeof error, message: clean(toText(error)) };
  const code = "code" in error && typeof error.code === "string" ? clean(error.code) : undefined;
  const hint = error instanceof SandboxError ? error.hint : undefined;
  return {
    type: clean(error.name),
    message: clean(error.message),
    ...(code !== undefined && { code }),
    ...(hint !== undefined && { hint: clean(hint) }),
  };
}

/** Name, message and frames. A message can have lines that look like frames: it is not split. */
function stackOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || typeof error.stack !== "string") return undefined;
  if (error instanceof SandboxError && error.code !== "internal") return undefined;
  const head = `${error.name}: ${error.message}`;
  const rest = error.stack.startsWith(head) ? error.stack.slice(head.length) : error.stack;
  const frames = rest.split("\n").filter((line) => /^ {4}at /.test(line));
  const shown = frames.slice(0, MAX_FRAMES).map((frame) => {
    return clean(frame.slice(0, MAX_FRAME_CHARACTERS));
  });
  return [`${clean(error.name)}: ${clean(error.message)}`, ...shown].join("\n");
}

function toText(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    // Anything can be thrown, also what cannot be made a text.
    return "no text";
  }
}

function clean(text: string): string {
  return quoteUntrusted(text.replaceAll(KEY_PATTERN, "e2b_[redacted]"));
}
