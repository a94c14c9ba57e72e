/** Messages to and from a helper process: a length of 32 bits in network order, then the message. */

const WORD_BYTES = 4;

/** A message of a letter, numbers of 32 bits, and bytes. */
export function toFrame(letter: string, numbers: readonly number[], bytes?: Buffer): Buffer {
  const head = Buffer.alloc(WORD_BYTES + 1 + numbers.length * WORD_BYTES);
  head.writeUInt32BE(head.length - WORD_BYTES + (bytes?.length ?? 0));
  head.write(letter, WORD_BYTES, "latin1");
  for (const [index, number] of numbers.entries()) {
    head.writeUInt32BE(number, WORD_BYTES + 1 + index * WORD_BYTES);
  }
  return bytes === undefined ? head : Buffer.concat([head, bytes]);
}

/** Cuts a byte stream into messages. */
export class FrameReader {
  readonly #onFrame: (frame: Buffer) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #needed = WORD_BYTES;

  /** `onFrame` gets each message without its length. */
  constructor(onFrame: (frame: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return;
    let whole = this.#parts.length === 1 ? chunk : Buffer.concat(this.#parts, this.#bytes);
    for (;;) {
      this.#needed = WORD_BYTES + (whole.length < WORD_BYTES ? 0 : whole.readUInt32BE(0));
      if (whole.length < this.#needed) break;
      const frame = whole.subarray(WORD_BYTES, this.#needed);
      whole = whole.subarray(this.#needed);
      this.#onFrame(frame);
    }
    this.#parts = [whole];
    this.#bytes = whole.length;
  }
}
