/** Many small frames of HTTP/2 at once cost no more than few large ones. */

import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect, type TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { createTestTlsServer } from "../support/network/tls-server.ts";

const DOMAIN = "sandbox.localhost";
const BYTES = 4_000;
const HEADERS = 1;
const DATA = 0;
const SETTINGS = 4;
const END_HEADERS = 4;
/** From the table of HPACK: POST, https, the path /, and an authority. */
const HEAD = Buffer.concat([
  Buffer.from([0x83, 0x87, 0x84, 0x01, DOMAIN.length]),
  Buffer.from(DOMAIN, "latin1"),
]);

interface Kind {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
}

function frame({ type, flags, stream }: Kind, body = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** A client of a server, whose requests are told; it has sent what begins a connection. */
async function open(take: (request: IncomingMessage) => void) {
  const certificate = await makeCertificate([DOMAIN]);
  const server = createTestTlsServer(certificate.identity);
  server.on("request", (request, response) => {
    take(request);
    request.on("end", () => response.end()).resume();
  });
  const port = await listenOnLoopback(server);
  const ca = certificate.authority;
  const options = { port, host: "127.0.0.1", ca, servername: DOMAIN, ALPNProtocols: ["h2"] };
  const client: TLSSocket = connect(options);
  await once(client, "secureConnect");
  client.on("error", () => undefined);
  client.resume();
  client.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  client.write(frame({ type: SETTINGS, flags: 0, stream: 0 }));
  return {
    client,
    async [Symbol.asyncDispose]() {
      client.destroy();
      server.close();
      await once(server, "close");
      await certificate[Symbol.asyncDispose]();
    },
  };
}

test("a body in frames of one byte comes in few pieces", async () => {
  const pieces: number[] = [];
  await using connection = await open((request) => {
    request.on("data", (chunk: Buffer) => pieces.push(chunk.length));
  });
  const data = frame({ type: DATA, flags: 0, stream: 1 }, Buffer.from("x"));
  const head = frame({ type: HEADERS, flags: END_HEADERS, stream: 1 }, HEAD);
  const frames = Array.from({ length: BYTES }, () => data);
  connection.client.write(Buffer.concat([head, ...frames]));
  await expect.poll(() => pieces.reduce((sum, bytes) => sum + bytes, 0)).toBe(BYTES);
  expect(pieces.length).toBeLessThan(BYTES / 10);
});
