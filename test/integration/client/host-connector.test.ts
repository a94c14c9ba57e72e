/** Connections of a client to a host of several addresses, with and without TLS. */

import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { connect, type Socket } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { Agent, request } from "undici";
import { expect, onTestFinished, test } from "vitest";
import { hostConnector } from "../../../src/client/host-connector.ts";
import { causeCode } from "../../../src/common/errors.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { makeCertificate } from "../../support/network/certificate.ts";

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => "no error",
    (error: unknown) => causeCode(error),
  );
}

test("a host whose first address has no server is reached at another one", async () => {
  const server = createServer((_request, response) => response.end("here"));
  const port = await listenOnLoopback(server);
  const dispatcher = new Agent({ connect: hostConnector() });
  const bodies: string[] = [];
  for (const host of ["localhost", "127.0.0.1"]) {
    const { body } = await request(`http://${host}:${port}/`, { dispatcher });
    bodies.push(await body.text());
  }
  expect(bodies).toEqual(["here", "here"]);
  const closed = once(server, "close");
  server.close();
  await dispatcher.close();
  await closed;
  expect(await codeOf(request(`http://127.0.0.1:${port}/`, { dispatcher: new Agent() }))).toBe(
    await codeOf(
      request(`http://127.0.0.1:${port}/`, {
        dispatcher: new Agent({ connect: hostConnector() }),
      }),
    ),
  );
});

test("a certificate of an unknown authority is refused, and a name without an address", async () => {
  await using certificate = await makeCertificate(["localhost"]);
  const { certificate: cert, key } = certificate.identity;
  const server = createSecureServer({ cert, key }, (_request, response) => response.end());
  const port = await listenOnLoopback(server);
  const dispatcher = new Agent({ connect: hostConnector() });
  expect([
    await codeOf(request(`https://localhost:${port}/`, { dispatcher })),
    await codeOf(request("http://name.invalid/", { dispatcher })),
  ]).toEqual([
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/),
  ]);
  await dispatcher.close();
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
});

/** A proxy that leads to one port of this machine, whatever it is asked for, with this first line. */
async function startProxy(port: number, accepted = "200 OK") {
  const asked: unknown[] = [];
  const proxy = createServer((_request, response) => response.writeHead(405).end());
  proxy.on("connect", (call, socket: Socket) => {
    asked.push([call.url, call.headers["proxy-authorization"]]);
    if (call.url === "refused.invalid:443") {
      socket.end("HTTP/1.1 407 Login\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    const onward = connect({ host: "127.0.0.1", port });
    socket.write(`HTTP/1.1 ${accepted}\r\n\r\n`);
    socket.pipe(onward).pipe(socket);
    for (const end of [socket, onward]) end.on("error", () => end.destroy());
  });
  const proxyPort = await listenOnLoopback(proxy);
  onTestFinished(() => void proxy.close());
  return { asked, url: `http://user:p%40ss@127.0.0.1:${proxyPort}` };
}

test("a host with TLS is reached through the proxy, and trusted by its own certificate", async () => {
  await using certificate = await makeCertificate(["service.invalid", "localhost"]);
  const { certificate: cert, key } = certificate.identity;
  const server = createSecureServer({ cert, key }, (_request, response) => response.end("here"));
  const port = await listenOnLoopback(server);
  const authorities = getCACertificates();
  onTestFinished(() => setDefaultCACertificates(authorities));
  setDefaultCACertificates([...authorities, certificate.authority]);
  const { asked, url } = await startProxy(port);
  const proxy = { url, except: "direct.invalid" };
  const dispatcher = new Agent({ connect: hostConnector(proxy) });
  onTestFinished(async () => dispatcher.destroy());
  const read = async (address: string) => (await request(address, { dispatcher })).body.text();
  expect([
    await read("https://service.invalid/"),
    await read(`https://localhost:${port}/`),
    await codeOf(read("https://direct.invalid/")),
    await codeOf(read("https://other.invalid/")),
  ]).toEqual([
    "here",
    "here",
    expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/),
    "ERR_TLS_CERT_ALTNAME_INVALID",
  ]);
  const login = `Basic ${Buffer.from("user:p@ss").toString("base64")}`;
  expect(asked).toEqual([
    ["service.invalid:443", login],
    ["other.invalid:443", login],
  ]);
  server.close();
  server.closeAllConnections();
});

test.for([
  "200 Connection Established",
  "201 Created",
  "204 No Content\r\ncontent-length: 5",
  "299 Odd",
])("a tunnel is open after %j", async (accepted) => {
  await using certificate = await makeCertificate(["service.invalid"]);
  const { certificate: cert, key } = certificate.identity;
  const server = createSecureServer({ cert, key }, (_request, response) => response.end("here"));
  const { url } = await startProxy(await listenOnLoopback(server), accepted);
  const authorities = getCACertificates();
  onTestFinished(() => setDefaultCACertificates(authorities));
  setDefaultCACertificates([...authorities, certificate.authority]);
  const dispatcher = new Agent({ connect: hostConnector({ url, except: "" }) });
  const { body } = await request("https://service.invalid/", { dispatcher });
  expect(await body.text()).toBe("here");
  await dispatcher.destroy();
  server.close();
  server.closeAllConnections();
});

async function askThrough(proxy: string): Promise<unknown> {
  const dispatcher = new Agent({ connect: hostConnector({ url: proxy, except: "" }) });
  onTestFinished(async () => dispatcher.destroy());
  return request("https://refused.invalid/", { dispatcher }).catch((error: unknown) => error);
}

test("a proxy that refuses is named without its login, and so is what is none", async () => {
  const { url } = await startProxy(9);
  expect(await askThrough(url)).toMatchObject({
    code: "unavailable",
    message: expect.stringMatching(
      /^the proxy 127\.0\.0\.1:\d+ answered 407 for refused\.invalid:443$/,
    ),
  });
  const message = "HTTPS_PROXY names no HTTP proxy";
  expect(await askThrough("socks5://127.0.0.1:1")).toMatchObject({ code: "unavailable", message });
});
