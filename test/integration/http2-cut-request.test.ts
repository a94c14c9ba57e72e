/** A body that its client of HTTP/2 breaks off, by a reset or with the connection, is not whole behind it. */

import { once } from "node:events";
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createTestTlsServer } from "../support/network/tls-server.ts";

const DOMAIN = "sandbox.localhost";
const STREAMS = 20;
const SENT = "x".repeat(1_000);

let certificate: TestCertificate;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN]);
});
afterAll(async () => certificate[Symbol.asyncDispose]());

type Ending = (stream: ClientHttp2Stream, session: ClientHttp2Session) => void;

const ENDINGS: readonly { readonly by: string; readonly ends: string; readonly end: Ending }[] = [
  { by: "its end", ends: "whole", end: (stream) => stream.end() },
  { by: "a reset", ends: "cut", end: (stream) => stream.destroy() },
  { by: "its connection", ends: "cut", end: (_stream, session) => session.destroy() },
];

test.for(ENDINGS)("a body that ends by $by is $ends", async ({ ends, end }) => {
  const server = createTestTlsServer(certificate.identity);
  const begun = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const seen: string[] = [];
  let arrived = 0;
  const see = (how: string) => {
    if (seen.push(how) === STREAMS) over.resolve();
  };
  server.on("request", (request, response) => {
    request.once("data", () => {
      arrived += 1;
      if (arrived === STREAMS) begun.resolve();
    });
    request.once("error", () => see("cut"));
    request.once("end", () => {
      see("whole");
      response.end();
    });
  });
  const port = await listenOnLoopback(server);
  const session = connect(`https://${DOMAIN}:${port}`, {
    ca: certificate.authority,
    lookup: (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
  });
  const streams = Array.from({ length: STREAMS }, () => {
    const stream = session.request({ ":method": "POST", ":path": "/" });
    stream.on("error", () => undefined).resume();
    stream.write(SENT);
    return stream;
  });
  await begun.promise;
  for (const stream of streams) end(stream, session);
  await over.promise;
  expect(new Set(seen)).toEqual(new Set([ends]));
  session.destroy();
  server.close();
  await once(server, "close");
});
