/** A small HTTP server as it may run in a sandbox: it says what it was sent, slowly if asked. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { listenOnLoopback } from "../loopback.ts";

export interface EchoServer extends AsyncDisposable {
  readonly port: number;
  /** Connections that are open now. */
  countConnections(): Promise<number>;
}

/**
 * Answers every request with its method, target, headers and body as JSON. `/drip` answers with
 * one chunk and never ends, `/slow` takes more than a second, `/early` before it has read the body; an upgrade to `echo` sends every byte back.
 */
export async function startEchoServer(): Promise<EchoServer> {
  const server = createServer((request, response) => {
    if (request.url === "/drip") {
      response.write("first");
      return;
    }
    if (request.url === "/slow") {
      void drip(response);
      return;
    }
    if (request.url === "/early") {
      response.end("early");
      return;
    }
    answer(request, response).catch((error: unknown) =>
      response.destroy(error instanceof Error ? error : undefined),
    );
  });
  server.on("upgrade", (request, socket, head) => {
    if (request.headers.upgrade !== "echo") {
      socket.end("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno");
      return;
    }
    socket.on("error", () => socket.destroy());
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
    );
    socket.write(head);
    socket.pipe(socket);
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    async countConnections() {
      const count = Promise.withResolvers<number>();
      server.getConnections((error, open) => (error ? count.reject(error) : count.resolve(open)));
      return count.promise;
    },
    async [Symbol.asyncDispose]() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
    },
  };
}

/** Twenty figures, one every 80 ms. */
async function drip(response: ServerResponse): Promise<void> {
  for (let index = 0; index < 20; index += 1) {
    response.write(String(index % 10));
    await delay(80);
  }
  response.end();
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readAll(request);
  const { method, url, rawHeaders } = request;
  response.setHeader("set-cookie", ["a=1; Domain=sandbox.localhost; Path=/", "b=2; Path=/"]);
  response.setHeader("access-control-allow-origin", "*");
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ method, url, rawHeaders, body }));
}

async function readAll(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}
