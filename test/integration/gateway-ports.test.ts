/** Services in a sandbox that speak more than plain HTTP, and people who visit them. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer as createHttpServer, request as httpRequest } from "node:http";
import { createServer } from "node:https";
import { WebSocket } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let certificate: TestCertificate;
beforeAll(async () => {
  certificate = await makeCertificate(["inside.test"]);
  service = await startTestService();
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

/** What comes first on an upgraded connection. */
async function upgradeText(sandboxId: string, port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const call = httpRequest({
    socketPath: service.embedded.socketPath,
    headers: {
      host: "localhost",
      connection: "Upgrade",
      upgrade: "x",
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": String(port),
    },
  });
  call.on("error", reject);
  call.on("upgrade", (_response, socket, head) => {
    if (head.length > 0) resolve(head.toString());
    else socket.once("data", (chunk) => resolve(String(chunk)));
    socket.once("close", () => reject(new Error("closed without a word")));
  });
  call.end();
  return promise;
}

test("a port named in httpsPorts is spoken to in TLS, whatever its certificate; no other is", async () => {
  const { certificate: cert, key } = certificate.identity;
  const server = createServer({ cert, key }, (request, response) => {
    response.end(`${request.url} ${String(request.headers.host)}`);
  });
  server.on("upgrade", (_request, socket) => {
    const head = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: x"];
    socket.end(`${head.join("\r\n")}\r\n\r\nsecret`);
  });
  const plain = createHttpServer((_request, response) => response.end("plain"));
  const port = await listenOnLoopback(server);
  const plainPort = await listenOnLoopback(plain);
  try {
    const network = { httpsPorts: [port, plainPort], maskRequestHost: "inside.test" };
    const { sandboxID } = await service.create({ network });
    const reply = await service.enter({ sandboxID, port }, { path: "/a" });
    expect({ status: reply.status, text: reply.text }).toEqual({
      status: 200,
      text: "/a inside.test",
    });
    expect(await upgradeText(sandboxID, port)).toBe("secret");
    // Nobody speaks TLS there.
    const refused = await service.enter({ sandboxID, port: plainPort }, { path: "/" });
    const message = "The program on the port does not speak TLS, but httpsPorts names the port";
    expect(refused).toMatchObject({ status: 502, body: { port: plainPort, message } });
    const described = await service.call({ path: `/sandboxes/${sandboxID}` });
    expect(described.body).toMatchObject({ network });
    const other = await service.create();
    const open = await service.enter({ ...other, port: plainPort }, { path: "/" });
    expect(open.text).toBe("plain");
  } finally {
    server.closeAllConnections();
    server.close();
    plain.closeAllConnections();
    plain.close();
  }
});

const WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

test("a WebSocket client talks with a server on 127.0.0.1, until the sandbox is killed", async () => {
  const server = createHttpServer();
  server.on("upgrade", (request, socket) => {
    const key = `${String(request.headers["sec-websocket-key"])}${WEBSOCKET_GUID}`;
    const accept = createHash("sha1").update(key).digest("base64");
    const head = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket"];
    socket.write(`${head.join("\r\n")}\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    // One whole text frame of five letters.
    socket.write(Buffer.concat([Buffer.from([0x81, 5]), Buffer.from("hello")]));
    socket.on("error", () => socket.destroy());
    socket.on("data", (frame: Buffer) => {
      const mask = frame.subarray(2, 6);
      const letters = frame.subarray(6).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
      socket.write(Buffer.concat([Buffer.from([0x81, letters.length]), letters]));
    });
  });
  const port = await listenOnLoopback(server);
  try {
    const { sandboxID } = await service.create();
    const { dispatcher } = service;
    const headers = { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": String(port) };
    const client = new WebSocket("ws://localhost/", { dispatcher, headers });
    const heard: string[] = [];
    client.addEventListener("message", ({ data }) => {
      heard.push(String(data));
      if (heard.length === 1) client.send("again");
    });
    await expect.poll(() => heard).toEqual(["hello", "again"]);
    const closed = once(client, "close");
    await service.embedded.sandboxes.kill(sandboxID);
    expect((await closed)[0]).toMatchObject({ code: 1006, wasClean: false });
    const health = await service.enter({ sandboxID }, { path: "/health" });
    expect(health.status).toBe(502);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("a person with a browser is refused with a page, a program with JSON", async () => {
  const call = { path: "/", headers: { "user-agent": "Mozilla/5.0 (X11)", accept: "text/html" } };
  const missing = { sandboxID: "i00000000000000000000", port: 80 };
  const page = await service.enter(missing, call);
  expect(page.status).toBe(502);
  expect(page.headers).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'",
    "cache-control": "no-store",
  });
  expect(page.text).toContain("<p>The sandbox was not found</p>");
  expect((await service.enter(missing, { path: "/" })).body).toMatchObject({ code: 502 });
});

test.for([
  { domain: "box.example", proto: "http" },
  { domain: "box.example:443", proto: "https" },
])("behind the domain $domain a program hears of $proto", async ({ domain, proto }) => {
  await using server = createHttpServer((request, response) => {
    response.end(request.headers["x-forwarded-proto"]);
  });
  const port = await listenOnLoopback(server);
  const tcp = [{ host: "127.0.0.1", port: 0 }];
  await using own = await startTestService({ domain, tcp });
  const { sandboxID } = await own.create();
  const host = `${port}-${sandboxID}.box.example`;
  const heard = await own.call({ path: "/", headers: { host } });
  const nameless = await own.enter({ sandboxID, port }, { path: "/" });
  expect([heard.text, nameless.text]).toEqual([proto, "http"]);
});
