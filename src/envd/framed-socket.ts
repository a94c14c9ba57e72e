/**
 * A connection that the kernel of the sandbox hands to the host. Versions of runsc up to January 2026
 * end when more than 16 KiB of it wait to be read, and those up to September 2026 sometimes do not
 * notice what waits: the host confirms what it has read, and no more than that is on its way.
 *
 * It ends by a reset once nothing is on its way: a connection that ends in order is kept by the kernel
 * for a minute more, with some 30 KB of the sandbox's memory.
 *
 * Frames begin with a word of 32 bits: the kind in its first byte, a number in the others.
 */

import type { Socket } from "node:net";
import { Duplex } from "node:stream";

const WORD_BYTES = 4;
/** Data, with its length; either side sends it. */
const DATA = 0;
/** From the host: so many bytes were read; of none, it asks whether the daemon answers. */
const READ = 1;
/** To the host: its last data is consumed, and more may come. */
const CONSUMED = 1;
/** To the host: nothing, so that its kernel notices what is there. */
const NUDGE = 2;
const NUMBER_BITS = 24;
const NUMBER_MASK = 0xff_ff_ff;
/** What may be unread, and what data leaves of it to the other frames. */
const MAX_UNREAD_BYTES = 16_384;
const MAX_DATA_BYTES = 16_000;
/** Data of the host in one frame. */
const MAX_FRAME_BYTES = 65_536;
/** A smaller part of something is not worth a frame. */
const MIN_PART_BYTES = 4_096;
const [FIRST_NUDGE_MS, LAST_NUDGE_MS] = [20, 1_000];
/** A host that has not confirmed the last data by then gets an end in order. */
const LAST_CONFIRMATION_MS = 1_000;

interface Sender {
  consumed(): void;
  /** Calls back when the last of it is on its way. */
  write(chunk: Buffer, done: () => void): void;
  /** The host has read so many bytes. */
  confirm(bytes: number): void;
  /** Whether the host has read all that was sent. */
  isRead(): boolean;
  /** Calls back once, when the host has read all that was sent, or has had the time for it. */
  whenRead(done: () => void): void;
  stop(): void;
}

function createSender(socket: Socket): Sender {
  let unread = 0;
  let nudge: NodeJS.Timeout | undefined;
  let waiting: { readonly rest: Buffer; readonly done: () => void } | undefined;
  let onRead: (() => void) | undefined;

  const send = (kind: number, data: Buffer = Buffer.alloc(0)): void => {
    if (socket.writableEnded || socket.destroyed) return;
    const frame = Buffer.allocUnsafe(WORD_BYTES + data.length);
    frame.writeUInt32BE(kind * (NUMBER_MASK + 1) + data.length);
    data.copy(frame, WORD_BYTES);
    unread += frame.length;
    socket.write(frame);
    if (kind !== NUDGE) remind(FIRST_NUDGE_MS);
  };
  const remind = (delayMs: number): void => {
    clearTimeout(nudge);
    if (unread === 0 || socket.writableEnded || socket.destroyed) return;
    nudge = setTimeout(() => {
      if (unread + WORD_BYTES <= MAX_UNREAD_BYTES) send(NUDGE);
      remind(Math.min(2 * delayMs, LAST_NUDGE_MS));
    }, delayMs).unref();
  };
  const sendWaiting = (): void => {
    while (waiting !== undefined) {
      const { rest, done } = waiting;
      const available = MAX_DATA_BYTES - unread - WORD_BYTES;
      if (available < Math.min(rest.length, MIN_PART_BYTES)) return;
      const size = Math.min(rest.length, available);
      send(DATA, rest.subarray(0, size));
      waiting = size < rest.length ? { rest: rest.subarray(size), done } : undefined;
      if (waiting === undefined) done();
    }
  };
  return {
    consumed: () => send(CONSUMED),
    write(rest, done) {
      waiting = { rest, done };
      sendWaiting();
    },
    confirm(bytes) {
      unread = Math.max(0, unread - bytes);
      remind(FIRST_NUDGE_MS);
      sendWaiting();
      if (unread === 0) onRead?.();
    },
    isRead: () => unread === 0,
    whenRead(done) {
      const timer = setTimeout(() => onRead?.(), LAST_CONFIRMATION_MS).unref();
      onRead = () => {
        onRead = undefined;
        clearTimeout(timer);
        done();
      };
      if (unread === 0) onRead();
    },
    stop: () => clearTimeout(nudge),
  };
}

/** Calls back with each frame of the host; other bytes, as programs inside may send, end the connection. */
function readFrames(socket: Socket, onFrame: (kind: number, number: number, data: Buffer) => void) {
  let held: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length >= WORD_BYTES) {
      const word = held.readUInt32BE();
      const [kind, number] = [word >>> NUMBER_BITS, word & NUMBER_MASK];
      const isSound = kind === DATA ? number > 0 && number <= MAX_FRAME_BYTES : kind === READ;
      // The host has no more to read than that; a program that asks and reads nothing would have.
      if (!isSound || socket.writableLength > MAX_UNREAD_BYTES) {
        socket.destroy();
        return;
      }
      const end = WORD_BYTES + (kind === DATA ? number : 0);
      if (held.length < end) return;
      const data = held.subarray(WORD_BYTES, end);
      held = held.subarray(end);
      onFrame(kind, number, data);
    }
  });
}

function reset(socket: Socket): void {
  if (!socket.destroyed) socket.resetAndDestroy();
}

/** What is carried by the frames of a connection. */
export function unframe(socket: Socket): Duplex {
  const sender = createSender(socket);
  /** The reader has not asked for more since the last data. */
  let owesConsumed = false;
  const stream = new Duplex({
    allowHalfOpen: false,
    read() {
      if (owesConsumed) sender.consumed();
      owesConsumed = false;
    },
    write(chunk: Buffer, _encoding, done) {
      sender.write(chunk, done);
    },
    final(done) {
      sender.whenRead(() => {
        if (!sender.isRead()) socket.end(done);
        else {
          reset(socket);
          done();
        }
      });
    },
    destroy(error, done) {
      sender.stop();
      // What is on its way arrives.
      if (sender.isRead()) reset(socket);
      else socket.destroy();
      done(error);
    },
  });
  socket.setNoDelay(true);
  readFrames(socket, (kind, number, data) => {
    if (kind === READ && number > 0) sender.confirm(number);
    else if (kind === READ || stream.push(data)) sender.consumed();
    else owesConsumed = true;
  });
  socket.once("end", () => {
    stream.push(null);
    // The host reads no more.
    reset(socket);
  });
  socket.once("error", (error) => stream.destroy(error));
  socket.once("close", () => stream.destroy());
  socket.on("timeout", () => stream.emit("timeout"));
  // What an HTTP server asks of a socket beside that.
  return Object.assign(stream, {
    setTimeout(timeoutMs: number, onTimeout?: () => void) {
      socket.setTimeout(timeoutMs);
      if (onTimeout !== undefined) stream[timeoutMs === 0 ? "off" : "once"]("timeout", onTimeout);
      return stream;
    },
  });
}
