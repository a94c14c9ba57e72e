/**
 * The end of a step's command as `STEP_SCRIPT` writes it behind the output of the command: the streams of
 * a process end only when all that has them ended, such as a server that the command left running.
 */

import { randomUUID } from "node:crypto";
import type { OutputStream } from "../../client/process.ts";

const CODE = /^ ([0-9]{1,3})\n/;
const MAX_CODE_BYTES = " 255\n".length;

export interface StepEnd {
  /** What `STEP_SCRIPT` joins to the mark; apart, because a command may print the arguments of its parent. */
  readonly words: readonly [string, string];
  /** What is output of the command; what may be the beginning of its end waits for the next piece. */
  take(stream: OutputStream, bytes: Uint8Array): Uint8Array;
  /** What still waits, of a command whose end is not written. */
  rest(stream: OutputStream): Uint8Array;
  /** Undefined until both streams have the end. */
  exitCode(): number | undefined;
}

export function createStepEnd(): StepEnd {
  const words = [randomUUID(), randomUUID()] as const;
  const mark = Buffer.from(words.join(""));
  const waiting: Record<OutputStream, Buffer> = {
    stdout: Buffer.alloc(0),
    stderr: Buffer.alloc(0),
  };
  const codes = new Map<OutputStream, number>();
  return {
    words,
    take(stream, bytes) {
      // Of what the command left.
      if (codes.has(stream)) return Buffer.alloc(0);
      const all = Buffer.concat([waiting[stream], bytes]);
      const found = all.indexOf(mark);
      const at = found === -1 ? all.length - beginOf(mark, all) : found;
      const behind = all.subarray(found === -1 ? all.length : at + mark.length);
      const [, code] = CODE.exec(behind.toString("latin1", 0, MAX_CODE_BYTES)) ?? [];
      if (code !== undefined) codes.set(stream, Number(code));
      waiting[stream] = code === undefined ? all.subarray(at) : Buffer.alloc(0);
      return all.subarray(0, at);
    },
    rest: (stream) => waiting[stream],
    exitCode: () => (codes.size === 2 ? codes.get("stdout") : undefined),
  };
}

/** How many of the last bytes are the first ones of the mark. */
function beginOf(mark: Buffer, bytes: Buffer): number {
  let length = Math.min(mark.length - 1, bytes.length);
  while (!mark.subarray(0, length).equals(bytes.subarray(bytes.length - length))) length -= 1;
  return length;
}
