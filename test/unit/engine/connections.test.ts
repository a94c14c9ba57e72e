/** Connections that are cut for a moment. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createConnections } from "../../../src/engine/network/connections.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

async function listen() {
  const server = createServer((socket) => socket.on("error", () => undefined));
  const port = await listenOnLoopback(server);
  return {
    dial: async (): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      return socket;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}

const NEVER = new AbortController().signal;

test("a cut ends every connection, and new ones come about after it", async () => {
  await using server = await listen();
  const connections = createConnections();
  const old = await connections.open(server.dial, NEVER);
  const events: string[] = [];
  let opened: Promise<Socket> | undefined;
  await connections.whileCut(async () => {
    events.push(`closed ${old.closed}`);
    opened = connections.open(async () => {
      events.push("dial");
      return server.dial();
    }, NEVER);
    await setImmediate();
    events.push("over");
  });
  const fresh = await opened;
  expect(events).toEqual(["closed true", "over", "dial"]);
  expect(fresh?.closed).toBe(false);
  fresh?.destroy();
});

test("a connection that came about during a cut is made again after it", async () => {
  await using server = await listen();
  const connections = createConnections();
  const made: Socket[] = [];
  const late = Promise.withResolvers<void>();
  const opening = connections.open(async () => {
    if (made.length === 0) await late.promise;
    const socket = await server.dial();
    made.push(socket);
    return socket;
  }, NEVER);
  await connections.whileCut(async () => {
    late.resolve();
    await expect.poll(() => made[0]?.closed).toBe(true);
  });
  const socket = await opening;
  expect(made).toHaveLength(2);
  expect(socket).toBe(made[1]);
  socket.destroy();
});

test("a caller that is gone waits for no cut to end, and a cut that failed ends too", async () => {
  await using server = await listen();
  const connections = createConnections();
  const gone = new AbortController();
  const failed = connections.whileCut(async () => {
    const waiting = connections.open(server.dial, gone.signal);
    gone.abort();
    await expect(waiting).rejects.toMatchObject({ code: "canceled" });
    throw new Error("not saved");
  });
  await expect(failed).rejects.toThrow("not saved");
  (await connections.open(server.dial, NEVER)).destroy();
});
