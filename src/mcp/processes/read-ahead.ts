/** Stdin that is read a piece ahead of its reader, so that its end is met while the reader waits. */

import { PassThrough, pipeline, type Readable } from "node:stream";

/** More than a host that has closed stdin can have left in a pipe. */
const MAX_AHEAD_BYTES = 512 * 1024;

/**
 * What comes from the source. A reader that takes nothing for so long after the end of the source,
 * as while a host takes no replies, gets no more of it: the stream closes.
 */
export function readAhead(source: Readable, patienceMs: number): Readable {
  const ahead = new PassThrough({ highWaterMark: MAX_AHEAD_BYTES });
  source.once("end", () => {
    let left = untaken(ahead);
    const timer = setInterval(() => {
      if (untaken(ahead) === left) ahead.destroy();
      left = untaken(ahead);
    }, patienceMs).unref();
    ahead.once("close", () => clearInterval(timer));
  });
  // Its faults are those of the stream that is returned.
  pipeline(source, ahead, () => undefined);
  return ahead;
}

function untaken({ readableLength, writableLength }: PassThrough): number {
  return readableLength + writableLength;
}
