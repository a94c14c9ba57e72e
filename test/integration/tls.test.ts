/** The door with TLS: both protocols, every room behind it, and a client that knows a domain. */

import { execFile } from "node:child_process";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { get, type RequestOptions } from "node:https";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { makeCertificate, type TestCertificate } from "../support/certificate.ts";
import { startEchoServer, type EchoServer } from "../support/echo.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DOMAIN = "sandbox.localhost";
const CLIENT = resolve(import.meta.dirname, "../support/domain-client.ts");
const NAMES = resolve(import.meta.dirname, "../support/loopback-names.ts");

let certificate: TestCertificate;
let echo: EchoServer;
let service: TestService;
let sandbox: SandboxBody;
let port: number;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  echo = await startEchoServer();
  const { identity } = certificate;
  service = await startTestService({ tcp: [{ host: "127.0.0.1", port: 0, tls: identity }] });
  sandbox = await service.create();
  port = Number(service.embedded.ports[0]);
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await echo[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

const key = () => ({ "x-api-key": service.embedded.apiKey });

function openSession(): ClientHttp2Session {
  const ca = certificate.authority;
  return connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: DOMAIN });
}

/** One exchange over HTTP/2. */
async function exchange(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
  body = "",
) {
  const stream = session.request(headers);
  if (body !== "") stream.end(body);
  const [reply] = await once(stream, "response");
  return { status: Number(reply[":status"]), headers: reply, text: await text(stream) };
}

test("HTTP/1.1 reaches the control API at api.<domain>", async () => {
  const options: RequestOptions = {
    ca: certificate.authority,
    servername: `api.${DOMAIN}`,
    host: "127.0.0.1",
    port,
    path: `/sandboxes/${sandbox.sandboxID}`,
    headers: { ...key(), host: `api.${DOMAIN}:${port}` },
  };
  const { promise, resolve: done, reject } = Promise.withResolvers<IncomingMessage>();
  get(options, done).on("error", reject);
  expect(JSON.parse(await text(await promise))).toMatchObject({ sandboxID: sandbox.sandboxID });
});

test("HTTP/2 reaches the control API, and a bad request is told apart", async () => {
  const session = openSession();
  const host = { ":authority": `api.${DOMAIN}:${port}` };
  const path = `/sandboxes/${sandbox.sandboxID}`;
  const replies = await Promise.all([
    exchange(session, { ...host, ...key(), ":path": path }),
    exchange(session, { ...host, ":path": path }),
    exchange(session, { ":authority": "evil.test", ...key(), ":path": path }),
    exchange(session, { ...host, ...key(), ":path": `${path}/timeout`, ":method": "POST" }, "{}"),
  ]);
  session.close();
  expect(replies.map(({ status }) => status)).toEqual([200, 401, 400, 400]);
  expect(JSON.parse(replies[0].text)).toMatchObject({ sandboxID: sandbox.sandboxID });
});

test("HTTP/2 reaches a port of a sandbox, which hears of TLS and no key", async () => {
  const session = openSession();
  const authority = `${echo.port}-${sandbox.sandboxID}.${DOMAIN}:${port}`;
  const headers = { ":authority": authority, ":path": "/a?b", ":method": "POST", ...key() };
  const reply = await exchange(session, headers, "body");
  session.close();
  expect(reply.status).toBe(200);
  expect(JSON.parse(reply.text)).toMatchObject({ method: "POST", url: "/a?b", body: "body" });
  expect(reply.text).toContain(authority);
  expect(reply.text).toContain('"x-forwarded-proto","https"');
  expect(reply.text).not.toContain(service.embedded.apiKey);
});

test("a stream over HTTP/2 comes as it is sent, and breaks when the sandbox ends", async () => {
  const { sandboxID } = await service.create();
  const session = openSession();
  const stream = session.request({
    ":authority": `${echo.port}-${sandboxID}.${DOMAIN}:${port}`,
    ":path": "/drip",
  });
  const [first] = await once(stream, "data");
  expect(String(first)).toBe("first");
  const broken = once(stream, "error");
  stream.resume();
  await service.embedded.sandboxes.kill(sandboxID);
  expect(String((await broken)[0])).toContain("NGHTTP2_INTERNAL_ERROR");
  session.destroy();
});

test("the public client works with a key and a domain alone", async () => {
  const words = ["--import", NAMES, CLIENT];
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    env: {
      E2B_API_KEY: service.embedded.apiKey,
      E2B_DOMAIN: `${DOMAIN}:${port}`,
      NODE_EXTRA_CA_CERTS: certificate.authorityPath,
    },
  });
  expect(JSON.parse(stdout)).toEqual({
    stdout: "over TLS\n",
    isRunning: true,
    isListed: true,
    downloaded: "written",
    scheme: "https:",
    killed: true,
  });
});

test("a key that does not fit is refused before anything listens", async () => {
  await using other = await makeCertificate([DOMAIN]);
  const tls = { ...certificate.identity, key: other.identity.key };
  await expect(
    startTestService({ tcp: [{ host: "127.0.0.1", port: 0, tls }] }),
  ).rejects.toMatchObject({
    code: "failed_precondition",
    message: "certificate and key cannot be used",
  });
});
