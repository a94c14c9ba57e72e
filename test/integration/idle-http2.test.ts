/** Connections of HTTP/2 that ask for nothing end, as those of HTTP/1.1 do. */

import { once } from "node:events";
import type { Server } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createTestTlsServer } from "../support/network/tls-server.ts";

const DOMAIN = "sandbox.localhost";
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS = "\0\0\0\u0004\0\0\0\0\0";
const HOUR_MS = 3_600_000;
const SOON_MS = 100;
/** Between two streams the process of the tests may stand for a moment. */
const LATER_MS = 1_000;
/** What a stream lasts against the time that a connection may have none. */
const LONGER = 1.5;

let certificate: TestCertificate;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN]);
});
afterAll(async () => certificate[Symbol.asyncDispose]());

/** A server that answers each request in the end; how long it waits for one is the test's choice. */
async function startServer(times: { readonly firstMs: number; readonly laterMs: number }) {
  const server = createTestTlsServer(certificate.identity, times);
  server.on("request", (_request, response) => {
    response.write("begun");
    setTimeout(() => response.end(), LONGER * times.laterMs);
  });
  return { server, port: await listenOnLoopback(server) };
}

async function end(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}

test.for([
  { sent: "nothing", bytes: "", times: { firstMs: SOON_MS, laterMs: HOUR_MS } },
  { sent: "half a preface", bytes: "PRI * HT", times: { firstMs: SOON_MS, laterMs: HOUR_MS } },
  {
    sent: "its settings alone",
    bytes: `${PREFACE}${SETTINGS}`,
    times: { firstMs: HOUR_MS, laterMs: SOON_MS },
  },
])("a connection that sends $sent is closed", async ({ bytes, times }) => {
  const { server, port } = await startServer(times);
  const ca = certificate.authority;
  const socket = connect({
    port,
    host: "127.0.0.1",
    ca,
    servername: DOMAIN,
    ALPNProtocols: ["h2"],
  });
  await once(socket, "secureConnect");
  if (bytes !== "") socket.write(bytes, "latin1");
  socket.resume();
  expect(await once(socket, "close")).toEqual([false]);
  await end(server);
});

test.for([
  { client: "leaves its own side open", method: "POST", sent: "a part", window: 65_535 },
  { client: "takes nothing of the reply", method: "GET", sent: "", window: 0 },
])("a client that $client is let go after the reply", async ({ method, sent, window }) => {
  const { server, port } = await startServer({ firstMs: HOUR_MS, laterMs: SOON_MS });
  const ca = certificate.authority;
  const settings = { initialWindowSize: window };
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: DOMAIN, settings });
  const closed = once(session, "close");
  const head = { ":method": method, ":authority": DOMAIN };
  const stream = session.request(head, { endStream: sent === "" });
  stream.on("error", () => undefined);
  if (sent !== "") stream.write(sent);
  stream.resume();
  expect(await closed).toEqual([]);
  await end(server);
});

test("a connection stays while a stream is open, and for a while after its end", async () => {
  const { server, port } = await startServer({ firstMs: HOUR_MS, laterMs: LATER_MS });
  const ca = certificate.authority;
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: DOMAIN });
  const closed = once(session, "close");
  for (let round = 0; round < 2; round += 1) {
    const stream = session.request({ ":authority": DOMAIN });
    let body = "";
    stream.on("data", (chunk) => {
      body += String(chunk);
    });
    await once(stream, "end");
    expect([body, stream.rstCode]).toEqual(["begun", 0]);
  }
  await closed;
  await end(server);
});

test("a request whose body is late is answered at once", async () => {
  const { server, port } = await startServer({ firstMs: HOUR_MS, laterMs: LATER_MS });
  const ca = certificate.authority;
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: DOMAIN });
  const stream = session.request({ ":method": "POST", ":authority": DOMAIN });
  const [head] = await once(stream, "response");
  expect(head).toMatchObject({ ":status": 200 });
  stream.end("a body");
  session.close();
  stream.resume();
  await once(session, "close");
  await end(server);
});
