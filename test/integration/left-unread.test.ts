/** Clients that leave while nothing more is read of what they sent. */

import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import type { Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { startListener } from "../../src/listener/listener.ts";
import type { TlsIdentity } from "../../src/listener/tls.ts";
import { makeCertificate } from "../support/network/certificate.ts";

const HOST = "127.0.0.1";
const PROBES_MS = 60_000;
const BODY_BYTES = 32 * 1024 ** 2;
const POST = `POST /files HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${2 * BODY_BYTES}\r\n\r\n`;
const UPGRADE =
  "GET /files HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

const unused = async () => undefined;

/** A listener whose gateway takes every request and reads nothing of it. */
async function listen(tls?: TlsIdentity) {
  const arrived: IncomingMessage[] = [];
  const take = async (request: IncomingMessage) => {
    arrived.push(request);
  };
  const listener = await startListener({
    addresses: [{ kind: "tcp", host: HOST, port: 0, tls }],
    domain: "sandbox.localhost",
    handlers: { isReady: () => true, control: unused, mcp: unused, gateway: take, upgrade: take },
    log: createSilentLog(),
    graceMs: 0,
  });
  const [port = 0] = listener.ports;
  return { port, arrived, [Symbol.asyncDispose]: async () => listener[Symbol.asyncDispose]() };
}

function isFull(stream: Readable | undefined): boolean {
  return stream !== undefined && stream.readableLength >= stream.readableHighWaterMark;
}

test.for([
  ["a body", POST],
  ["an upgraded connection", UPGRADE],
])("the connection of %s ends", async ([, head = ""]) => {
  await using listener = await listen();
  const { port, arrived } = listener;
  const client = connect(port, HOST);
  client.write(head);
  client.write(Buffer.alloc(BODY_BYTES));
  await expect.poll(() => isFull(head === POST ? arrived[0] : arrived[0]?.socket)).toBe(true);
  client.resetAndDestroy();
  vi.advanceTimersByTime(PROBES_MS);
  await expect.poll(() => arrived[0]?.socket.destroyed).toBe(true);
});

test("the same with TLS; a client that is there keeps its connection", async () => {
  await using certificate = await makeCertificate(["localhost"]);
  await using listener = await listen(certificate.identity);
  const { port, arrived } = listener;
  const socket = connect(port, HOST);
  const client = connectTls({ socket, rejectUnauthorized: false });
  for (const stream of [socket, client]) stream.on("error", () => undefined);
  await once(client, "secureConnect");
  client.write(POST);
  client.write(Buffer.alloc(BODY_BYTES));
  await expect.poll(() => isFull(arrived[0])).toBe(true);
  vi.advanceTimersByTime(PROBES_MS);
  const [request] = arrived;
  let bytes = 0;
  request?.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes === BODY_BYTES) request.pause();
  });
  await expect.poll(() => bytes).toBe(BODY_BYTES);
  client.write(Buffer.alloc(BODY_BYTES / 2));
  await expect.poll(() => isFull(request)).toBe(true);
  socket.resetAndDestroy();
  vi.advanceTimersByTime(PROBES_MS);
  await expect.poll(() => request?.socket.destroyed).toBe(true);
});
