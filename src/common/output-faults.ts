/**
 * What happens when standard output or standard error cannot be written. A reader that has read
 * enough, as `head`, ends nothing: the rest is dropped. Any other fault is reported once.
 */

import { fstatSync, statSync } from "node:fs";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "./errors.ts";

const NOWHERE = "/dev/null";

const READER_GONE: ReadonlySet<string> = new Set(["EPIPE", "ECONNRESET", "ERR_STREAM_DESTROYED"]);

export interface Streams {
  readonly stdout: NodeJS.EventEmitter;
  readonly stderr: NodeJS.EventEmitter;
}

/** Calls back for the first fault of standard output that loses what a person or file waits for. */
export function watchOutput({ stdout, stderr }: Streams, onFault: (text: string) => void): void {
  let isReported = false;
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (isReported || READER_GONE.has(error.code ?? "")) return;
    isReported = true;
    onFault(`standard output cannot be written: ${errorText(error)}`);
  });
  // Nothing is left to report it on.
  stderr.on("error", () => undefined);
}

/** As long as `openNamedPipe` waits. */
const LAST_ERRORS_MS = 1_000;

/**
 * The end of a program that is over: a reader of standard error that has stopped would hold it up for
 * ever. Standard output is waited for.
 */
export function boundLastErrors(program: NodeJS.Process): void {
  const { stdout, stderr } = program;
  const look = (): void => {
    if (stderr.writableLength > 0 && stdout.writableLength === 0) program.exit();
    else setTimeout(look, LAST_ERRORS_MS).unref();
  };
  setTimeout(look, LAST_ERRORS_MS).unref();
}

const LOOK_MS = 20;

/** Whether all that was written is read, each piece within the time; waits for that. */
export async function isTaken(output: Writable, patienceMs: number): Promise<boolean> {
  let [left, atMs] = [output.writableLength, performance.now()];
  while (output.writableLength > 0 && !output.destroyed) {
    await sleep(LOOK_MS);
    if (output.writableLength !== left) {
      [left, atMs] = [output.writableLength, performance.now()];
    } else if (performance.now() - atMs > patienceMs) return false;
  }
  return true;
}

/** Whether no program or file gets what is written there. Node opens the same device for one that is closed. */
export function isDiscarded(descriptor: number): boolean {
  try {
    const { rdev } = fstatSync(descriptor);
    return rdev !== 0 && rdev === statSync(NOWHERE).rdev;
  } catch {
    // Writing tells the fault.
    return false;
  }
}
