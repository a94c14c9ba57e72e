/** Requests that a client sends without waiting for the replies to those before them. */

import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { startListener } from "../../src/listener/listener.ts";

const HOST = "127.0.0.1";
const MAX_WAITING = 32;

const unused = async () => undefined;

async function listen(control: (response: ServerResponse) => void) {
  const listener = await startListener({
    addresses: [{ kind: "tcp", host: HOST, port: 0, tls: undefined }],
    domain: "sandbox.localhost",
    handlers: {
      isReady: () => true,
      control: async (_request, response) => control(response),
      mcp: unused,
      gateway: unused,
      upgrade: unused,
    },
    log: createSilentLog(),
    graceMs: 0,
  });
  const [port = 0] = listener.ports;
  return { port, [Symbol.asyncDispose]: async () => listener[Symbol.asyncDispose]() };
}

const REQUEST = "GET /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\n\r\n";

test("a connection that sends further ahead ends, and what is too much is not begun", async () => {
  let begun = 0;
  await using listener = await listen(() => void (begun += 1));
  const client = connect(listener.port, HOST);
  client.write(REQUEST.repeat(1_000));
  expect(await text(client).catch(() => "reset")).toMatch(/^(?:reset)?$/);
  expect(begun).toBe(MAX_WAITING);
});

test("a few requests at once and many one after the other are answered", async () => {
  await using listener = await listen((response) => void setImmediate(() => response.end("ok")));
  const client = connect(listener.port, HOST).setEncoding("utf8");
  client.write(REQUEST.repeat(MAX_WAITING));
  let answered = 0;
  for await (const chunk of client) {
    const replies = String(chunk).match(/^HTTP\/1\.1 200 OK/gm) ?? [];
    answered += replies.length;
    if (answered > 3 * MAX_WAITING) break;
    client.write(REQUEST.repeat(replies.length));
  }
  expect(answered).toBeGreaterThan(3 * MAX_WAITING);
});
