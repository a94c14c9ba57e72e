/**
 * In the place of the daemon: passes whatever comes on its two inherited sockets on to two ports of
 * the test, which answers as it likes. Words: the port for clients, the port for the host.
 */

import { connect, createServer } from "node:net";

const DESCRIPTORS = [3, 4] as const;

for (const [index, fd] of DESCRIPTORS.entries()) {
  const port = Number(process.argv[index + 2]);
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const target = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", () => target.destroy());
    target.on("error", () => socket.destroy());
    socket.once("close", () => target.destroy());
    socket.pipe(target).pipe(socket);
  });
  server.listen({ fd });
}
