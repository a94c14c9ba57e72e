/** Connections on which no whole request comes in time: none is told that it sent a bad one. */

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { startListener, type Listener } from "../../src/listener/listener.ts";

const handler = async (_: unknown, response: { end(): unknown }) => void response.end();
const handlers = {
  isReady: () => true,
  control: handler,
  gateway: handler,
  upgrade: async () => undefined,
  mcp: handler,
};

let listener: Listener;

beforeAll(async () => {
  const addresses = [{ kind: "tcp", host: "127.0.0.1", port: 0, tls: undefined }] as const;
  listener = await startListener({
    addresses,
    domain: "x.localhost",
    handlers,
    log: createSilentLog(),
  });
});
afterAll(async () => listener[Symbol.asyncDispose]());

test.concurrent.for([
  // A client may have opened it ahead: its next request must not meet an answer.
  { name: "nothing came", sent: "", told: /^$/ },
  { name: "half a head came", sent: "GET / HTTP/1.1\r\nhost: a\r\n", told: /^HTTP\/1\.1 408 / },
  {
    name: "half a head came after a request",
    sent: "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.1\r\n",
    told: /^HTTP\/1\.1 204 [^]*HTTP\/1\.1 408 /,
  },
])("a connection on which $name is closed", { timeout: 40_000 }, async ({ sent, told }) => {
  const socket = connect(listener.ports[0] ?? 0, "127.0.0.1");
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  socket.write(sent);
  await once(socket, "close");
  expect(text).toMatch(told);
});
