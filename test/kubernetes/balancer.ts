/** A balancer before several fronts: each connection goes to the next one that takes it. */

import { connect, createServer, type Socket } from "node:net";

export function startBalancer(port: number, targets: readonly number[]): AsyncDisposable {
  let turn = 0;
  const sockets = new Set<Socket>();

  function tryNext(client: Socket, attempts: number): void {
    if (attempts === 0 || client.destroyed) return void client.destroy();
    turn += 1;
    const target = connect({ host: "127.0.0.1", port: targets[turn % targets.length] ?? 0 });
    target.once("error", () => tryNext(client, attempts - 1));
    target.once("connect", () => {
      target.removeAllListeners("error");
      for (const [from, to] of [
        [client, target],
        [target, client],
      ] as const) {
        sockets.add(from);
        from.on("error", () => to.destroy());
        from.once("close", () => {
          sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
    });
  }

  const server = createServer((client) => {
    client.on("error", () => undefined);
    tryNext(client, targets.length);
  });
  server.listen({ host: "127.0.0.1", port });
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
