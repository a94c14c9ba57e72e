/**
 * A connection of which no more is read than its pace allows: what is over it stays with the kernel
 * and then with the peer. All bytes count, so that nothing of HTTP's own framing is free.
 */

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { chunksOf } from "../common/bytes.ts";
import type { LogPace } from "./log-pace.ts";

/** Read at once; a reply in pieces of one byte each makes a thousand of it. */
const PIECE_BYTES = 8 * 1024;

/** The socket's other form; it ends with the signal, or with whoever destroys it. */
export function paceSocket(socket: Socket, pace: LogPace, signal: AbortSignal): Duplex {
  const pieces = readPieces(socket, pace, signal);
  let isReading = false;
  const paced = new Duplex({
    readableHighWaterMark: PIECE_BYTES,
    read() {
      if (isReading) return;
      isReading = true;
      // Every fault ends the connection with itself.
      void advance();
    },
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });

  // While nothing is read of it, nobody else hears of its end.
  socket.on("error", (error) => paced.destroy(error));

  async function advance(): Promise<void> {
    try {
      const { done, value } = await pieces.next();
      isReading = false;
      if (!paced.destroyed) paced.push(done === true ? null : value);
    } catch (error) {
      paced.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  return paced;
}

async function* readPieces(
  socket: Socket,
  pace: LogPace,
  signal: AbortSignal,
): AsyncGenerator<Buffer, undefined> {
  for await (const chunk of socket) {
    if (!Buffer.isBuffer(chunk)) continue;
    for (const piece of chunksOf(chunk, PIECE_BYTES)) {
      await pace.take({ bytes: piece.length }, signal);
      yield piece;
    }
  }
  return undefined;
}
