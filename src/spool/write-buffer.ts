/** Output on its way to the disk, as the frames of a file; it grows with what it is given. */

import {
  FRAME_HEADER_BYTES,
  writeFrameHeader,
  type SpoolStream,
  type StreamSizes,
} from "./segment.ts";

const FIRST_BYTES = 4 * 1024;
const MAX_BYTES = 256 * 1024;

export class WriteBuffer {
  /** How much each stream wrote before the first byte of this buffer. */
  readonly before: StreamSizes;
  #memory: Buffer;
  #length = 0;
  /** Where the header of the frame is that can still grow; -1 without one. */
  #frameAt = -1;
  #stream: SpoolStream = "stdout";

  /** @param memory that of a buffer which is not used any more. */
  constructor(before: StreamSizes, memory: Buffer = Buffer.alloc(0)) {
    this.before = { ...before };
    this.#memory = memory;
  }

  get length(): number {
    return this.#length;
  }

  get memory(): Buffer {
    return this.#memory;
  }

  get data(): Buffer {
    return this.#memory.subarray(0, this.#length);
  }

  /** Copies what fits; returns how much that was. */
  append(stream: SpoolStream, bytes: Uint8Array): number {
    const grows = this.#frameAt !== -1 && this.#stream === stream;
    const header = grows ? 0 : FRAME_HEADER_BYTES;
    this.#grow(header + bytes.length);
    const taken = Math.min(bytes.length, this.#memory.length - this.#length - header);
    if (taken <= 0) return 0;
    if (!grows) {
      this.#frameAt = this.#length;
      this.#stream = stream;
      this.#length += header;
    }
    this.#memory.set(bytes.subarray(0, taken), this.#length);
    this.#length += taken;
    const length = this.#length - this.#frameAt - FRAME_HEADER_BYTES;
    writeFrameHeader(this.#memory, this.#frameAt, { stream, length });
    return taken;
  }

  #grow(bytes: number): void {
    const wanted = Math.min(MAX_BYTES, this.#length + bytes);
    if (this.#memory.length >= wanted) return;
    const doubled = Math.max(FIRST_BYTES, this.#memory.length * 2, wanted);
    const grown = Buffer.alloc(Math.min(MAX_BYTES, doubled));
    this.#memory.copy(grown, 0, 0, this.#length);
    this.#memory = grown;
  }
}
