/** Bodies in chunks of a byte, which cost hundreds of times what is in them, and bodies without end. */

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, test, vi } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { startListener } from "../../src/listener/listener.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { startTestService } from "../support/service.ts";

const CHUNKS = 4_000;
const CHUNK = "1\r\nx\r\n";
const HOST = "127.0.0.1";
const MAX_REST_MS = 5_000;

afterEach(() => void vi.useRealTimers());

const unused = async () => undefined;

test("a body in chunks of a byte reaches a port in few chunks", async () => {
  await using service = await startTestService();
  const { sandboxID } = await service.create();
  let arrived = "";
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.setEncoding("latin1").on("data", (text: string) => (arrived += text));
  });
  const port = await listenOnLoopback(server);
  const client = connect(service.embedded.socketPath);
  client.write(
    `POST / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: ${sandboxID}\r\n` +
      `E2b-Sandbox-Port: ${port}\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  client.write(`${CHUNK.repeat(CHUNKS)}0\r\n\r\n`);
  await expect.poll(() => arrived.endsWith("\r\n0\r\n\r\n")).toBe(true);
  const body = arrived.slice(arrived.indexOf("\r\n\r\n") + "\r\n\r\n".length);
  expect(body.match(/x/g)).toHaveLength(CHUNKS);
  expect(body.match(/^[0-9a-f]+\r$/gm)?.length).toBeLessThan(CHUNKS / 10);
  client.destroy();
  server.close();
});

test.for([
  [
    "a request that goes on after its answer",
    "POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
    /^HTTP\/1\.1 204 /,
  ],
  ["a client that stays after a refusal", "no HTTP\r\n\r\n", /^HTTP\/1\.1 400 /],
  [
    "a client that stays after a refused upgrade",
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    /^HTTP\/1\.1 400 /,
  ],
] as const)("%s is cut", async ([, head, expected]) => {
  await using listener = await startListener({
    addresses: [{ kind: "tcp", host: HOST, port: 0, tls: undefined }],
    domain: "sandbox.localhost",
    handlers: {
      isReady: () => true,
      control: unused,
      mcp: unused,
      gateway: unused,
      upgrade: unused,
    },
    log: createSilentLog(),
    graceMs: 0,
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const client = connect({ port: listener.ports[0] ?? 0, host: HOST, allowHalfOpen: true });
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  client.on("error", () => undefined).once("close", () => resolve());
  client.write(head);
  const [answer] = await once(client, "data");
  expect(String(answer)).toMatch(expected);
  await nextTurn();
  vi.advanceTimersByTime(MAX_REST_MS);
  // The end of a connection that is cut is seen by what is sent.
  const sending = setInterval(() => client.write(CHUNK));
  await closed;
  clearInterval(sending);
});
