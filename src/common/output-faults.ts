/**
 * What happens when standard output or standard error cannot be written. A reader that has read
 * enough, as `head`, ends nothing: the rest is dropped. Any other fault is reported once.
 */

import { errorText } from "./errors.ts";

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
