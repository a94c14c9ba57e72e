/**
 * A TLS connection as a stream of this program. On the connection itself Node's HTTP/2 writes from
 * inside its native read, also while another write is under way: an assertion of the TLS library then
 * ends the whole process, which any client can cause by its frames. A stream queues such a write.
 */

import { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";

/** Ends, fails and closes as the connection does, and the other way round. */
export function wrapConnection(socket: TLSSocket): Duplex {
  const stream = new Duplex({
    read: () => void socket.resume(),
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
  });
  socket.once("end", () => stream.push(null));
  socket.on("error", (error) => stream.destroy(error));
  socket.once("close", () => stream.destroy());
  return stream;
}
