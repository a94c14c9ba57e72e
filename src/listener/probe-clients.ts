/**
 * Notices clients that have left while nothing is read from them: what a service takes no more of, such
 * as a body, keeps their end behind it, and the connection would stay for as long as that service.
 */

import type { Socket } from "node:net";

const PROBE_MS = 15_000;
const NOTHING = Buffer.alloc(0);

/** A write of no bytes sends nothing, and fails where the kernel knows that the client is gone. */
export function probeClients(sockets: ReadonlySet<Socket>): Disposable {
  const waiting = new WeakSet<Socket>();
  const timer = setInterval(() => {
    for (const socket of sockets) {
      // One with a time limit ends by itself, and a write would begin its time anew.
      if (!socket.writable || waiting.has(socket) || (socket.timeout ?? 0) > 0) continue;
      waiting.add(socket);
      socket.write(NOTHING, () => waiting.delete(socket));
    }
  }, PROBE_MS).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
