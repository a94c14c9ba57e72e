/** The door with TLS: both protocols, every room behind it, and a client that knows a domain. */

import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect as connectHttp2, constants, type ClientHttp2Session } from "node:http2";
import { get, type RequestOptions } from "node:https";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { startEchoServer, type EchoServer } from "../support/network/echo.ts";
import { envelope } from "../support/raw-call.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const DOMAIN = "sandbox.localhost";
const CLIENT = resolve(import.meta.dirname, "../support/network/domain-client.ts");
const NAMES = resolve(import.meta.dirname, "../support/network/loopback-names.ts");

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
  expect(reply.text).toContain('"X-Forwarded-Proto","https"');
  expect(reply.text).not.toContain(service.embedded.apiKey);
});

test.for(["GET", "DELETE", "POST"])("a body of unknown length on %s is a body", async (method) => {
  const session = openSession();
  const authority = `${echo.port}-${sandbox.sandboxID}.${DOMAIN}:${port}`;
  const second = `GET /second HTTP/1.1\r\nhost: ${authority}\r\n\r\n`;
  const headers = { ":authority": authority, ":path": "/first", ":method": method };
  const stream = session.request(headers, { endStream: false });
  stream.end(second);
  const seen: unknown = JSON.parse(await text(stream));
  session.close();
  expect(seen).toMatchObject({ method, url: "/first", body: second });
});

test("a client of HTTP/2 that waits for leave to send its body gets it", async () => {
  const session = openSession();
  const authority = `${echo.port}-${sandbox.sandboxID}.${DOMAIN}:${port}`;
  const headers = { ":authority": authority, ":method": "POST", expect: "100-continue" };
  const stream = session.request(headers, { endStream: false });
  await once(stream, "continue");
  stream.end("body");
  const seen: unknown = JSON.parse(await text(stream));
  session.close();
  expect(seen).toMatchObject({ body: "body" });
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

test("a stream that is reset drops its reader alone: process and connection go on", async () => {
  await using folder = await makeTempFolder();
  const marker = join(folder.path, "marker");
  const { sandboxID, envdAccessToken } = await service.create();
  const session = openSession();
  const common = {
    ":authority": `49983-${sandboxID}.${DOMAIN}:${port}`,
    "x-access-token": envdAccessToken ?? "",
  };
  const stream = session.request({
    ...common,
    ":method": "POST",
    ":path": "/process.Process/Start",
    "content-type": "application/connect+json",
    "connect-protocol-version": "1",
  });
  // More than any queue between the two holds: with a reader that does not read it would never end.
  const script = `head -c 30000000 /dev/zero; echo written > ${marker}`;
  stream.end(envelope(JSON.stringify({ process: { cmd: "sh", args: ["-c", script] } })));
  await once(stream, "data");
  stream.pause();
  stream.close(constants.NGHTTP2_CANCEL);
  const read = { ...common, ":path": `/files?path=${marker}` };
  await expect.poll(async () => (await exchange(session, read)).text).toBe("written\n");
  session.close();
  await service.embedded.sandboxes.kill(sandboxID);
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

function toPem({ privateKey }: { readonly privateKey: KeyObject }): string {
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

test.for([
  {
    what: "a key that does not fit",
    wrong: () => ({ key: toPem(generateKeyPairSync("ec", { namedCurve: "P-256" })) }),
  },
  {
    what: "a key of another kind",
    wrong: () => ({ key: toPem(generateKeyPairSync("rsa", { modulusLength: 2048 })) }),
  },
  { what: "an empty key", wrong: () => ({ key: "" }) },
  { what: "an empty certificate", wrong: () => ({ certificate: "" }) },
])("$what is refused before anything listens", async ({ wrong }) => {
  const tls = { ...certificate.identity, ...wrong() };
  await expect(
    startTestService({ tcp: [{ host: "127.0.0.1", port: 0, tls }] }),
  ).rejects.toMatchObject({
    code: "failed_precondition",
    message: "certificate and key cannot be used",
  });
});
