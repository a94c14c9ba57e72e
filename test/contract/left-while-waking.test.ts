/** A client that leaves while its sandbox is woken takes no connection with it. */

import { once } from "node:events";
import { createServer, request as sendRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { createGateway } from "../../src/gateway/handler.ts";
import type { Endpoint } from "../../src/sandboxes/run.ts";
import { closedEndpoint } from "../support/control/endpoint.ts";
import { listenOnLoopback } from "../support/loopback.ts";

const PORT = 49_999;

test("a connection that was dialled ahead is not spent on a client that has left", async () => {
  const seen: string[] = [];
  await using inner = createServer((request, response) => {
    seen.push(request.url ?? "");
    response.end("ok");
  });
  const innerPort = await listenOnLoopback(inner);
  const dialled: Socket[] = [];
  const endpoint = closedEndpoint({
    servicePorts: [PORT],
    async dial() {
      const socket = connect(innerPort, "127.0.0.1");
      dialled.push(socket);
      socket.on("error", () => undefined);
      await once(socket, "connect");
      return socket;
    },
  });
  const woken = Promise.withResolvers<Endpoint>();
  const wakes: string[] = [];
  const gateway = createGateway({
    sandboxes: {
      locate: () => (wakes.length === 0 && seen.length === 0 ? endpoint : undefined),
      endpoints: () => [],
      stopped: () => [],
      async wake({ sandboxId }) {
        wakes.push(sandboxId);
        return woken.promise;
      },
    },
    keys: { isKey: () => false, given: [] },
    isShared: () => false,
    clock: createSystemClock(),
    log: createSilentLog(),
  });
  const handled: Promise<void>[] = [];
  await using outer = createServer((request, response) => {
    const address = { sandboxId: endpoint.sandboxId, port: PORT };
    handled.push(gateway.handle(request, response, { address, hasOwnHost: false }));
  });
  const port = await listenOnLoopback(outer);
  const ask = (path: string) => {
    const call = sendRequest({ port, host: "127.0.0.1", path, agent: false }).end();
    call.on("error", () => undefined);
    return call;
  };
  const first = ask("/first");
  const [reply] = await once(first, "response");
  reply.resume();
  await handled[0];
  await expect.poll(() => dialled.length).toBe(2);
  const second = ask("/second");
  await expect.poll(() => wakes).toEqual([endpoint.sandboxId]);
  second.destroy();
  await expect
    .poll(async () => {
      const { promise, resolve } = Promise.withResolvers<number>();
      outer.getConnections((_error, count) => resolve(count));
      return promise;
    })
    .toBe(0);
  woken.resolve(endpoint);
  await handled[1];
  expect(seen).toEqual(["/first"]);
  for (const socket of dialled) socket.destroy();
});
