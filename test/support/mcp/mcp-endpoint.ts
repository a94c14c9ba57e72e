/** The `/mcp` endpoint on a port of its own, with a whole service behind it. */

import { createServer } from "node:http";
import type { Clock } from "../../../src/common/clock.ts";
import type { Logger } from "../../../src/common/log.ts";
import { startMcpHttp } from "../../../src/mcp/http/http.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { closeServer, listenOnLoopback } from "../loopback.ts";
import { startMcpWorld } from "./mcp-sandbox.ts";

interface EndpointOptions {
  readonly protocol?: "auto" | "legacy";
  /** Of the endpoint alone. */
  readonly log?: Logger;
}

export async function startEndpoint(clock?: Clock, { protocol, log }: EndpointOptions = {}) {
  await using stack = new AsyncDisposableStack();
  const world = stack.use(await startMcpWorld(clock));
  const revoked = new Set<string>();
  const http = stack.use(
    startMcpHttp({
      state: { ...world.state, ...(log !== undefined && { log }) },
      tools: TOOLS,
      version: "0.0.0",
      ...(protocol !== undefined && { protocol }),
      authenticate: async (token) =>
        token.startsWith("key-") && !revoked.has(token) ? token.slice(4) : undefined,
    }),
  );
  const handled: Promise<void>[] = [];
  const server = createServer((request, response) => {
    handled.push(http.handle(request, response));
  });
  const port = await listenOnLoopback(server);
  stack.defer(() => closeServer(server));
  const owned = stack.move();
  const url = `http://127.0.0.1:${port}/mcp`;

  async function post(
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    signal: AbortSignal | null = null,
  ) {
    return fetch(url, {
      signal,
      method: "POST",
      headers: {
        authorization: "Bearer key-alice",
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
    });
  }
  const revoke = (token: string) => void revoked.add(token);
  return { world, url, post, revoke, handled, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
