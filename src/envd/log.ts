/**
 * The daemon's log: JSON lines that wait here until the host fetches them. What a process prints
 * never gets in; text from requests does, cut to a fixed length.
 */

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface DaemonLog {
  write(level: LogLevel, message: string, fields: LogFields): void;
  /** A number for one operation, as text; joins the lines that belong together. */
  nextOperation(): string;
  /**
   * The lines that wait, each with its newline; waits for the first one.
   * Rejects with the signal's reason.
   */
  take(signal: AbortSignal): Promise<string>;
}

/** Lines wait for the host this long in bytes; the oldest go first. */
const MAX_QUEUED_BYTES = 1_048_576;
/** No text of a request is longer than this in a line. */
const MAX_TEXT_CHARACTERS = 1024;
/** The host gets its lines in pieces of about this many bytes. */
const MAX_TAKE_BYTES = 65_536;

/** An empty log. `logger` names the part of the daemon, as in every line. */
export function createDaemonLog(): DaemonLog {
  const lines: string[] = [];
  let bytes = 0;
  let dropped = 0;
  let operations = 0;
  let wake: (() => void) | undefined;

  function makeRoom(): void {
    while (bytes > MAX_QUEUED_BYTES && lines.length > 1) {
      bytes -= lines.shift()?.length ?? 0;
      dropped += 1;
    }
  }

  function takeLines(): string {
    let text = "";
    if (dropped > 0) {
      text = toLine("warn", "log lines dropped", { logger: "envd", dropped });
      dropped = 0;
    }
    while (lines.length > 0 && text.length < MAX_TAKE_BYTES) text += lines.shift();
    bytes -= Math.min(bytes, text.length);
    if (lines.length === 0) bytes = 0;
    return text;
  }

  return {
    write(level, message, fields) {
      const line = toLine(level, message, fields);
      lines.push(line);
      bytes += line.length;
      makeRoom();
      wake?.();
    },
    nextOperation() {
      operations += 1;
      return String(operations);
    },
    async take(signal) {
      while (lines.length === 0) {
        signal.throwIfAborted();
        const { promise, resolve } = Promise.withResolvers<void>();
        wake = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
        await promise;
      }
      signal.throwIfAborted();
      return takeLines();
    },
  };
}

function toLine(level: LogLevel, message: string, fields: LogFields): string {
  const line = { level, timestamp: new Date().toISOString(), message: clip(message), ...fields };
  return `${JSON.stringify(line, (_key, value: unknown) => clip(value))}\n`;
}

function clip(value: unknown): unknown {
  if (typeof value !== "string" || value.length <= MAX_TEXT_CHARACTERS) return value;
  return `${value.slice(0, MAX_TEXT_CHARACTERS)}…`;
}
