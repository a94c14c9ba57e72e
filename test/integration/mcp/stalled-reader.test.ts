/** A client that does not read the reply: it is ended, while one that reads or waits is not. */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { endWhenStalled } from "../../../src/mcp/http/end-reply.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";

/** More than the kernel holds for a connection. */
const MUCH = Buffer.alloc(32 * 1024 * 1024);

/** A reply under way to a client that reads only when it is told to. */
async function startReply() {
  const { promise: replying, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => resolve(response));
  const port = await listenOnLoopback(server);
  const client = connect(port, "127.0.0.1");
  client.pause().on("error", () => client.destroy());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const response = await replying;
  const clock = createFakeClock();
  endWhenStalled(response, clock);
  return {
    client,
    clock,
    response,
    async [Symbol.asyncDispose]() {
      client.destroy();
      await closeServer(server);
    },
  };
}

test("a reply that is not read for five minutes ends", async () => {
  await using reply = await startReply();
  const { clock, response } = reply;
  response.write(MUCH);
  await clock.advance(4 * 60_000);
  expect(response.destroyed).toBe(false);
  await clock.advance(2 * 60_000);
  expect(response.destroyed).toBe(true);
});

test("a silent reply, and one that is read in between, goes on", async () => {
  await using reply = await startReply();
  const { client, clock, response } = reply;
  await clock.advance(20 * 60_000);
  response.write(MUCH);
  await clock.advance(4 * 60_000);
  client.resume();
  await once(response, "drain");
  client.pause();
  response.write(MUCH);
  await clock.advance(4 * 60_000);
  expect(response.destroyed).toBe(false);
});
