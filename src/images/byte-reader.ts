/** Reads a stream of bytes in pieces of known length, and counts and bounds what it reads. */

import { createByteBuffer } from "../common/bytes.ts";
import { SandboxError } from "../common/errors.ts";

export interface ByteReader {
  /** How many bytes were taken so far. */
  readonly position: number;
  /** Exactly so many bytes; undefined when the stream ends before the first of them. */
  take(size: number): Promise<Buffer | undefined>;
  /** The same; fewer bytes are a fault. */
  require(size: number): Promise<Buffer>;
  /** The next bytes as they come, at most so many; a stream that ends is a fault. */
  some(most: number): Promise<Buffer>;
  skip(size: number): Promise<void>;
}

/** @throws SandboxError failed_precondition by each method when the stream ends too early */
export function createByteReader(source: AsyncIterable<Buffer>): ByteReader {
  const chunks = source[Symbol.asyncIterator]();
  let left: Buffer = Buffer.alloc(0);
  let position = 0;

  async function fill(): Promise<boolean> {
    const chunk = await chunks.next();
    if (chunk.done === true) return false;
    left = chunk.value;
    return true;
  }

  async function next(most: number): Promise<Buffer | undefined> {
    while (left.length === 0) {
      if (!(await fill())) return undefined;
    }
    const piece = left.subarray(0, most);
    left = left.subarray(piece.length);
    position += piece.length;
    return piece;
  }

  async function take(size: number): Promise<Buffer | undefined> {
    const first = await next(size);
    if (first === undefined) return undefined;
    if (first.length === size) return first;
    // Not as pieces: they may be of one byte each.
    const whole = createByteBuffer();
    whole.add(first);
    while (whole.length < size) whole.add((await next(size - whole.length)) ?? endedEarly());
    return whole.take();
  }

  return {
    get position() {
      return position;
    },
    take,
    require: async (size) => (size === 0 ? Buffer.alloc(0) : ((await take(size)) ?? endedEarly())),
    some: async (most) => (await next(most)) ?? endedEarly(),
    async skip(size) {
      for (let missing = size; missing > 0;) {
        missing -= ((await next(missing)) ?? endedEarly()).length;
      }
    },
  };
}

function endedEarly(): never {
  throw new SandboxError("failed_precondition", "the image, or a layer of it, is cut off");
}
