/** A proxy that adds a key to each request, for clients that cannot send one. */

import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

export interface KeyedProxy extends AsyncDisposable {
  readonly url: string;
}

/** Starts the proxy on a free port. */
export async function startKeyedProxy(url: string, key: string): Promise<KeyedProxy> {
  const { hostname, port } = new URL(url);
  const server = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
    const { method, url: path } = incoming;
    const inner = request({ host: hostname, port, method, path, headers }, (reply) => {
      outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(outgoing);
      outgoing.once("close", () => reply.destroy());
    });
    inner.once("error", () => outgoing.destroy());
    incoming.pipe(inner);
  });
  const { promise: listening, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listening;
  // A server that listens on TCP has this form of address.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      const { promise: closed, resolve: done } = Promise.withResolvers<void>();
      server.close(() => done());
      await closed;
    },
  };
}
