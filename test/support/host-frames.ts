/** The host's side of a connection whose bytes the daemon of a sandbox carries in frames. */

const WORD_BYTES = 4;
const NUMBER_BITS = 24;
const NUMBER_MASK = 0xff_ff_ff;

/** Data of the host as one frame. */
export function toFrame(text: string): Buffer {
  const word = Buffer.alloc(WORD_BYTES);
  word.writeUInt32BE(Buffer.byteLength(text));
  return Buffer.concat([word, Buffer.from(text)]);
}

/** The data in the frames of a daemon. */
export function dataOf(frames: Buffer): string {
  let text = "";
  for (let at = 0; at < frames.length;) {
    const word = frames.readUInt32BE(at);
    const size = word & NUMBER_MASK;
    at += WORD_BYTES;
    if (word >>> NUMBER_BITS === 0) text += frames.toString("latin1", at, at + size);
    at += size;
  }
  return text;
}
