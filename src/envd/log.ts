/**
 * The daemon's log: numbered JSON lines, of which the newest stay here whether the host has fetched
 * them or not, so that a host whose connection broke goes on where it was. What a process prints
 * never gets in; text from requests does, cut to a fixed length.
 */

import { randomUUID } from "node:crypto";
import type { RecordLevel } from "../common/log-level.ts";

export type LogFields = Readonly<Record<string, unknown>>;

export interface DaemonLog {
  /** Numbers count from the start of the daemon that this names. */
  readonly id: string;
  write(level: RecordLevel, message: string, fields: LogFields): void;
  /** A number for one operation, as text; joins the lines that belong together. */
  nextOperation(): string;
  /**
   * The lines after a number, each behind its own number and with its newline; waits for the first
   * one. Where the oldest went the numbers show it. Rejects with the signal's reason.
   */
  after(number: number, signal: AbortSignal): Promise<NumberedLines>;
  /** All lines that are kept, in the same form. */
  kept(): string;
  /** Takes all lines away, of which no reader has seen one. */
  forget(): void;
}

export interface NumberedLines {
  readonly text: string;
  /** Of the last line. */
  readonly last: number;
  /** Whether there are more already. */
  readonly isBehind: boolean;
}

/** The newest lines are kept up to this many bytes. */
const MAX_KEPT_BYTES = 1_048_576;
/** No text of a request is longer than this in a line. */
const MAX_TEXT_CHARACTERS = 1024;
/** The host gets its lines in pieces of about this many bytes. */
const MAX_TAKE_BYTES = 65_536;

/** An empty log. `logger` names the part of the daemon, as in every line. */
export function createDaemonLog(): DaemonLog {
  const lines: string[] = [];
  let bytes = 0;
  let count = 0;
  let operations = 0;
  let wake: (() => void) | undefined;

  function takeLines(number: number): NumberedLines {
    const oldest = count - lines.length + 1;
    let last = Math.max(number, oldest - 1);
    let text = "";
    while (last < count && text.length < MAX_TAKE_BYTES) {
      last += 1;
      text += `${last} ${lines[last - oldest]}`;
    }
    return { text, last, isBehind: last < count };
  }

  return {
    id: randomUUID(),
    write(level, message, fields) {
      const line = toLine(level, message, fields);
      lines.push(line);
      count += 1;
      bytes += line.length;
      while (bytes > MAX_KEPT_BYTES && lines.length > 1) bytes -= lines.shift()?.length ?? 0;
      wake?.();
    },
    nextOperation() {
      operations += 1;
      return String(operations);
    },
    async after(number, signal) {
      for (;;) {
        if (number < count) break;
        signal.throwIfAborted();
        const { promise, resolve } = Promise.withResolvers<void>();
        const stop = () => resolve();
        wake = resolve;
        signal.addEventListener("abort", stop, { once: true });
        await promise;
        // A stream waits with one signal as long as its sandbox lives.
        signal.removeEventListener("abort", stop);
      }
      signal.throwIfAborted();
      return takeLines(number);
    },
    kept() {
      const oldest = count - lines.length + 1;
      return lines.map((line, index) => `${oldest + index} ${line}`).join("");
    },
    forget() {
      lines.length = 0;
      bytes = 0;
      count = 0;
    },
  };
}

function toLine(level: RecordLevel, message: string, fields: LogFields): string {
  const line = { level, timestamp: new Date().toISOString(), message: clip(message), ...fields };
  return `${JSON.stringify(line, (_key, value: unknown) => clip(value))}\n`;
}

function clip(value: unknown): unknown {
  if (typeof value !== "string" || value.length <= MAX_TEXT_CHARACTERS) return value;
  return `${value.slice(0, MAX_TEXT_CHARACTERS)}…`;
}
