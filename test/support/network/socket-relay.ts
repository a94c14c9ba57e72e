/** A port of loopback that leads to a unix socket: a way to a service in another network namespace. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { openSocketPath } from "../../../src/common/socket-path.ts";
import { listenOnLoopback } from "../loopback.ts";

export interface SocketRelay extends AsyncDisposable {
  readonly url: string;
}

/** Takes connections on a free port. */
export async function startSocketRelay(path: string): Promise<SocketRelay> {
  const open = new Set<Socket>();
  const relay = async (near: Socket) => {
    await using address = await openSocketPath(path);
    const far = connect(address.path);
    const isOver = Promise.race([once(far, "connect"), once(far, "close")]);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on("error", () => other.destroy());
      one.once("close", () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
    // The address is needed until then.
    await isOver.catch(() => undefined);
  };
  const server = createServer((near) => {
    relay(near).catch(() => near.destroy());
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
