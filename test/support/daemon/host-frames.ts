/** The host's side of a connection whose bytes the daemon of a sandbox carries in frames. */

import type { Socket } from "node:net";

const WORD_BYTES = 4;
const NUMBER_BITS = 24;
const NUMBER_MASK = 0xff_ff_ff;

/** Kinds of frames by who sends them. */
export const FROM_HOST = { data: 0, read: 1 } as const;
export const FROM_DAEMON = { data: 0, consumed: 1, nudge: 2 } as const;

/** A word that begins a frame. */
export function toWord(kind: number, number: number): Buffer {
  const word = Buffer.alloc(WORD_BYTES);
  word.writeUInt32BE(kind * (NUMBER_MASK + 1) + number);
  return word;
}

/** Data of the host as one frame. */
export function toFrame(data: string | Buffer): Buffer {
  return Buffer.concat([toWord(FROM_HOST.data, Buffer.byteLength(data)), Buffer.from(data)]);
}

/** The data in the frames of a daemon. */
export function dataOf(frames: Buffer): string {
  let text = "";
  for (let at = 0; at < frames.length;) {
    const word = frames.readUInt32BE(at);
    const size = word & NUMBER_MASK;
    at += WORD_BYTES;
    if (word >>> NUMBER_BITS === FROM_DAEMON.data) text += frames.toString("latin1", at, at + size);
    at += size;
  }
  return text;
}

export interface FrameCount {
  /** All bytes of whole and of broken frames. */
  bytes: number;
  data: Buffer;
  consumed: number;
  nudges: number;
}

/**
 * Counts what comes from a daemon. With `confirms` each chunk is confirmed, as the host does that
 * reads it.
 */
export function countFrames(socket: Socket, { confirms }: { confirms: boolean }): FrameCount {
  const count: FrameCount = { bytes: 0, data: Buffer.alloc(0), consumed: 0, nudges: 0 };
  let held = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    count.bytes += chunk.length;
    if (confirms && socket.writable) socket.write(toWord(FROM_HOST.read, chunk.length));
    held = Buffer.concat([held, chunk]);
    while (held.length >= WORD_BYTES) {
      const word = held.readUInt32BE();
      const end = WORD_BYTES + (word & NUMBER_MASK);
      if (held.length < end) return;
      const kind = word >>> NUMBER_BITS;
      if (kind === FROM_DAEMON.data) {
        count.data = Buffer.concat([count.data, held.subarray(WORD_BYTES, end)]);
      }
      if (kind === FROM_DAEMON.consumed) count.consumed += 1;
      if (kind === FROM_DAEMON.nudge) count.nudges += 1;
      held = held.subarray(end);
    }
  });
  return count;
}
