/** A reply that breaks off behind its head reaches a client of HTTP/2 with that head, and cut. */

import { once } from "node:events";
import { connect, type ClientHttp2Session } from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createTestTlsServer } from "../support/network/tls-server.ts";

const DOMAIN = "sandbox.localhost";
const STREAMS = 100;

let certificate: TestCertificate;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN]);
});
afterAll(async () => certificate[Symbol.asyncDispose]());

/** A server whose replies have a head, and break off at once. */
function startServer() {
  const server = createTestTlsServer(certificate.identity);
  server.on("request", (_request, response) => {
    response.writeHead(200, { "content-length": 50 }).flushHeaders();
    response.destroy();
  });
  return server;
}

async function call(session: ClientHttp2Session): Promise<string> {
  const stream = session.request({ ":path": "/" });
  let status = 0;
  let end = "whole";
  stream.on("response", (reply) => (status = Number(reply[":status"])));
  stream.on("error", () => (end = "cut"));
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  stream.once("close", resolve);
  stream.resume();
  await closed;
  return `${status} ${end}`;
}

test.for([
  { window: "an open window", initialWindowSize: 65_535 },
  { window: "a window that is shut", initialWindowSize: 0 },
])("with $window", async ({ initialWindowSize }) => {
  const server = startServer();
  const port = await listenOnLoopback(server);
  const session = connect(`https://${DOMAIN}:${port}`, {
    ca: certificate.authority,
    lookup: (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
    settings: { initialWindowSize },
  });
  const replies = await Promise.all(Array.from({ length: STREAMS }, () => call(session)));
  expect(new Set(replies)).toEqual(new Set(["200 cut"]));
  session.destroy();
  server.close();
  await once(server, "close");
});
