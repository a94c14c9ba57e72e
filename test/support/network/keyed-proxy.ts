/** A proxy that adds a key to each request, for clients that cannot send one. */

import { createServer, request } from "node:http";
import { closeServer, listenOnLoopback } from "../loopback.ts";

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
  const ownPort = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${ownPort}`,
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}
