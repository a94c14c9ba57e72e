/** The logger of every room on the host side: pino on fd 2, never stdout. */

import { pino, type Logger as PinoLogger } from "pino";
import { describeError } from "./log-error.ts";

export { quoteUntrusted } from "./quote.ts";

export type Logger = PinoLogger;

type DestinationOptions = Exclude<Parameters<typeof pino.destination>[0], string | number>;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

export interface LogOptions {
  readonly level: (typeof LOG_LEVELS)[number];
  /** A second place for the same lines; for hosts that drop stderr. */
  readonly file?: string | undefined;
}

/** Header and field names whose values never reach a log line. */
const REDACTED = ["apiKey", "token", "*.apiKey", "*.token", "headers", "*.headers"];

/** A logger that writes JSON lines to stderr and, if named, to a file. */
export function createLog(options: LogOptions): Logger {
  const stderr = openDestination({ fd: 2, sync: true });
  const settings = {
    level: options.level,
    redact: REDACTED,
    base: null,
    // Errors have this one key in every line.
    serializers: { err: describeError },
  };
  if (options.file === undefined) return pino(settings, stderr);
  const file = openDestination({ dest: options.file, sync: true, mode: 0o600 });
  const streams = [stderr, file].map((stream) => ({ stream, level: options.level }));
  return pino(settings, pino.multistream(streams));
}

/** A line that cannot be written, as on a full disk, is lost and fails nothing. */
function openDestination(options: DestinationOptions): ReturnType<typeof pino.destination> {
  return pino.destination(options).on("error", () => undefined);
}

/** A logger that drops everything. */
export function createSilentLog(): Logger {
  return pino({ level: "silent" });
}
