/**
 * A TLS connection as a stream of this program. On the connection itself Node's HTTP/2 writes from
 * inside its native read, also while another write is under way: an assertion of the TLS library then
 * ends the whole process, which any client can cause by its frames. A stream queues such a write.
 */

import { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { createLoopTurns } from "../common/loop-turns.ts";

/**
 * Ends, fails and closes as the connection does, and the other way round. Frames are read in turns: a
 * record of them can begin, and reset, hundreds of streams.
 */
export function wrapConnection(socket: TLSSocket): Duplex {
  const turns = createLoopTurns();
  let isWaiting = false;
  const wait = async (turn: Promise<void>): Promise<void> => {
    isWaiting = true;
    socket.pause();
    await turn;
    isWaiting = false;
    if (stream.readableLength < stream.readableHighWaterMark) socket.resume();
  };
  const stream = new Duplex({
    read() {
      if (!isWaiting) socket.resume();
    },
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    writev(pieces: readonly { readonly chunk: Buffer }[], done) {
      const last = pieces.length - 1;
      socket.cork();
      for (const [index, { chunk }] of pieces.entries()) {
        socket.write(chunk, index === last ? done : undefined);
      }
      socket.uncork();
    },
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });
  socket.on("data", (chunk: Buffer) => {
    if (!stream.push(chunk)) socket.pause();
    const turn = turns();
    if (turn !== undefined) void wait(turn);
  });
  socket.once("end", () => stream.push(null));
  socket.on("error", (error) => stream.destroy(error));
  socket.once("close", () => stream.destroy());
  return stream;
}
