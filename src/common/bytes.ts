/** Bytes gathered from small pieces, cut into chunks, and names batched by their size. */

export interface ByteBuffer {
  readonly length: number;
  /** Copies the bytes: a piece that is kept costs far more than what is in it. */
  add(bytes: Uint8Array): void;
  /** All that was added since the last time. */
  take(): Buffer;
}

const FIRST_BYTES = 1_024;
const EMPTY = Buffer.alloc(0);

/** An empty buffer, which grows with what it is given; how far is for its owner to say. */
export function createByteBuffer(): ByteBuffer {
  let buffer = EMPTY;
  let size = 0;
  return {
    get length() {
      return size;
    },
    add(bytes) {
      const needed = size + bytes.length;
      if (needed > buffer.length) {
        const grown = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * needed));
        buffer.copy(grown, 0, 0, size);
        buffer = grown;
      }
      buffer.set(bytes, size);
      size = needed;
    },
    take() {
      const whole = buffer.subarray(0, size);
      buffer = EMPTY;
      size = 0;
      return whole;
    },
  };
}

/** Views of the bytes, each of at most `maxBytes`. */
export function* chunksOf(bytes: Buffer, maxBytes: number): Generator<Buffer, void> {
  for (let start = 0; start < bytes.length; start += maxBytes) {
    yield bytes.subarray(start, start + maxBytes);
  }
}

/** The texts in order, as lists of at most `maxBytes` with a byte after each text. */
export function inBatches(texts: readonly string[], maxBytes: number): string[][] {
  const batches: string[][] = [];
  let leftBytes = 0;
  for (const text of texts) {
    leftBytes -= Buffer.byteLength(text) + 1;
    if (leftBytes < 0) {
      batches.push([]);
      leftBytes = maxBytes;
    }
    batches.at(-1)?.push(text);
  }
  return batches;
}
