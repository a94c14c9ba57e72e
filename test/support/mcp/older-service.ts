/** A proxy before a service that answers some of its routes as a service does that has them not. */

import { createServer, request, type Server } from "node:http";
import { closeServer, listenOnLoopback } from "../loopback.ts";

export interface OlderService extends AsyncDisposable {
  readonly url: string;
  /** Passes requests on to the service behind this unix socket. */
  forwardTo(socketPath: string): void;
  /** Answers 404 to requests whose method and path match, and to these alone. */
  lack(pattern: RegExp): void;
}

/** As the public service answers a path that it does not know. */
const UNKNOWN = JSON.stringify({ code: 404, message: "no matching operation was found" });

export async function startOlderService(): Promise<OlderService> {
  let socketPath = "";
  let missing = /^$/;
  const server: Server = createServer((incoming, outgoing) => {
    const { method = "", url = "", headers } = incoming;
    if (missing.test(`${method} ${url.split("?", 1)[0] ?? ""}`)) {
      incoming.resume();
      outgoing.writeHead(404, { "content-type": "application/json" }).end(UNKNOWN);
      return;
    }
    const call = request({ socketPath, method, path: url, headers }, (reply) => {
      outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(outgoing);
    });
    call.on("error", () => outgoing.destroy());
    outgoing.on("close", () => call.destroy());
    incoming.pipe(call);
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    forwardTo(path) {
      socketPath = path;
    },
    lack(pattern) {
      missing = pattern;
    },
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}
