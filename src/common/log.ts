/** The logger of every room on the host side: pino on fd 2, never stdout. */

import { pino, type Logger as PinoLogger } from "pino";

export type Logger = PinoLogger;

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
  const stderr = pino.destination({ fd: 2, sync: true });
  const settings = { level: options.level, redact: REDACTED, base: null };
  if (options.file === undefined) return pino(settings, stderr);
  const file = pino.destination({ dest: options.file, sync: true, mode: 0o600 });
  const streams = [stderr, file].map((stream) => ({ stream, level: options.level }));
  return pino(settings, pino.multistream(streams));
}

/** A logger that drops everything. */
export function createSilentLog(): Logger {
  return pino({ level: "silent" });
}

const MAX_LOGGED_CHARACTERS = 256;

/** Untrusted text made fit for a log line or a message: escaped and at most 256 characters. */
export function quoteUntrusted(text: string): string {
  const cut =
    text.length > MAX_LOGGED_CHARACTERS ? `${text.slice(0, MAX_LOGGED_CHARACTERS)}…` : text;
  // Control, bidi and separator characters could forge lines or reorder what a reader sees.
  return cut.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    const hex = character.codePointAt(0)?.toString(16).padStart(4, "0");
    return `\\u${hex}`;
  });
}
