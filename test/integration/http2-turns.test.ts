/** A connection of HTTP/2 whose frames take long leaves the event loop to others between them. */

import { once } from "node:events";
import { connect, createServer } from "node:tls";
import { expect, test } from "vitest";
import { wrapConnection } from "../../src/listener/wrapped-connection.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate } from "../support/network/certificate.ts";
import { countTurns } from "../support/turns.ts";

const BYTES = 256 * 1024;
const WORK_MS = 20;

function work(): void {
  const endMs = performance.now() + WORK_MS;
  while (performance.now() < endMs) continue;
}

test("each piece has a turn of its own, and all arrive in order", async () => {
  await using certificate = await makeCertificate(["localhost"]);
  const { certificate: cert, key } = certificate.identity;
  const server = createServer({ cert, key });
  const port = await listenOnLoopback(server);
  const accepted = once(server, "secureConnection");
  const client = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(client, "secureConnect");
  const sent = Buffer.from(Array.from({ length: BYTES }, (_, index) => index % 251));
  client.end(sent);
  const [socket] = await accepted;
  using turns = countTurns();
  const pieces: Buffer[] = [];
  const inTurns: number[] = [];
  const stream = wrapConnection(socket);
  stream.on("data", (piece: Buffer) => {
    pieces.push(piece);
    inTurns.push(turns.count());
    work();
  });
  await once(stream, "end");
  expect(Buffer.concat(pieces).equals(sent)).toBe(true);
  expect(new Set(inTurns).size).toBe(inTurns.length);
  stream.destroy();
  client.destroy();
  server.close();
  await once(server, "close");
});
