/**
 * Lines to a named pipe or terminal, which never wait for its reader: a write to a full one stops a
 * process.
 */

import { closeSync, constants, openSync, writeSync } from "node:fs";
import { isCode } from "./errors.ts";

/** A terminal that is only written to must not become the one whose keys end this process. */
const FLAGS = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
const RETRY_MS = 50;
/** A reader that is slow gets the last lines; one that has stopped does not hold up the end. */
const END_MS = 1000;

export interface PipeLines extends Disposable {
  readonly write: (line: string) => void;
}

/**
 * Opens a pipe that has a reader, or a terminal. Lines of up to `maxWaitingBytes` wait for it; later
 * ones, and those that are written while nothing reads, are lost.
 * @throws the system's error where nothing reads
 */
export function openNamedPipe(path: string, maxWaitingBytes: number): PipeLines {
  const descriptor = openSync(path, FLAGS);
  let waiting = Buffer.alloc(0);
  let retry: NodeJS.Timeout | undefined;

  function flush(): void {
    retry = undefined;
    try {
      while (waiting.length > 0) waiting = waiting.subarray(writeSync(descriptor, waiting));
    } catch (error) {
      if (isCode(error, "EAGAIN")) retry = setTimeout(flush, RETRY_MS).unref();
      // Another reader may open it.
      else waiting = Buffer.alloc(0);
    }
  }

  /** No timer fires any more once the process exits. */
  function writeLast(): void {
    clearTimeout(retry);
    const endMs = performance.now() + END_MS;
    while (waiting.length > 0 && performance.now() < endMs) {
      pause(RETRY_MS);
      flush();
    }
  }

  process.on("exit", writeLast);
  return {
    write(line) {
      if (waiting.length >= maxWaitingBytes) return;
      waiting = Buffer.concat([waiting, Buffer.from(line)]);
      if (retry === undefined) flush();
    },
    [Symbol.dispose]() {
      process.off("exit", writeLast);
      clearTimeout(retry);
      closeSync(descriptor);
    },
  };
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, ms);
}
