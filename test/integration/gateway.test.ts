/** The gateway: who gets in, what passes, and how it ends. */

import { writeFile } from "node:fs/promises";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { signFile } from "../../src/wire/signature.ts";
import { startEchoServer, type EchoServer } from "../support/network/echo.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let echo: EchoServer;
let sandbox: SandboxBody;
beforeAll(async () => {
  echo = await startEchoServer();
  service = await startTestService();
  sandbox = await service.create();
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await echo[Symbol.asyncDispose]();
});

const MISSING = "i00000000000000000000";
const DOMAIN = "sandbox.localhost";

/** Headers as the service inside saw them. */
function seen(text: string): Record<string, string> {
  const { rawHeaders } = z.object({ rawHeaders: z.array(z.string()) }).parse(JSON.parse(text));
  const headers: Record<string, string> = {};
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers[String(rawHeaders[index]).toLowerCase()] = String(rawHeaders[index + 1]);
  }
  return headers;
}

test("an unknown sandbox is 502", async () => {
  const reply = await service.enter({ sandboxID: MISSING }, { path: "/health" });
  expect({ status: reply.status, body: reply.body }).toEqual({
    status: 502,
    body: { sandboxId: MISSING, message: "The sandbox was not found", code: 502 },
  });
});

test("a port on which nothing listens is 502", async () => {
  const { sandboxID } = sandbox;
  const reply = await service.enter({ sandboxID, port: 9 }, { path: "/" });
  expect({ status: reply.status, body: reply.body }).toEqual({
    status: 502,
    body: {
      sandboxId: sandboxID,
      message: "The sandbox is running but port is not open",
      port: 9,
      code: 502,
    },
  });
});

test.for(["/init", "//init/", "/files/../freeze", "/%69nit", "/upgrade?x"])(
  "the host's own path %s is 404, also with the token",
  async (path) => {
    for (const method of ["GET", "POST"] as const) {
      const reply = await service.enter(sandbox, {
        method,
        path,
        headers: { "x-access-token": String(sandbox.envdAccessToken) },
      });
      expect(reply).toMatchObject({
        status: 404,
        body: {
          code: 404,
          message:
            "This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL",
        },
      });
    }
  },
);

test("the daemon asks for its token", async () => {
  expect((await service.enter(sandbox, { path: "/envs" })).status).toBe(401);
  const headers = { "x-access-token": String(sandbox.envdAccessToken) };
  expect((await service.enter(sandbox, { path: "/envs", headers })).status).toBe(200);
});

test("the target of a port passes byte for byte, with what is the application's own", async () => {
  const reply = await service.enter(
    { sandboxID: sandbox.sandboxID, port: echo.port },
    {
      method: "POST",
      path: "/a/..%2Fb//c?d=%20e",
      body: { hello: "world" },
      headers: {
        "x-api-key": "my own",
        authorization: "Bearer mine",
        "x-forwarded-host": "forged",
        forwarded: "for=forged",
      },
    },
  );
  expect(reply.body).toMatchObject({
    method: "POST",
    url: "/a/..%2Fb//c?d=%20e",
    body: '{"hello":"world"}',
  });
  expect(seen(reply.text)).toMatchObject({
    host: "localhost",
    "x-api-key": "my own",
    authorization: "Bearer mine",
    "x-forwarded-host": "localhost",
    "x-forwarded-proto": "http",
  });
  expect(reply.text).not.toContain("forged");
});

test("credentials of the platform do not enter a port", async () => {
  const { apiKey } = service.embedded;
  const token = String(sandbox.envdAccessToken);
  const reply = await service.enter(
    { sandboxID: sandbox.sandboxID, port: echo.port },
    {
      path: "/",
      headers: {
        "x-api-key": apiKey,
        "x-access-token": "anything",
        authorization: `Basic ${Buffer.from(`user:${apiKey}`).toString("base64")}`,
        "x-other": `key=${token}`,
        cookie: `a=1; key=${apiKey}`,
        "x-kept": "yes",
        "e2b-traffic-access-token": "any",
      },
    },
  );
  const headers = seen(reply.text);
  expect(Object.keys(headers).toSorted()).toEqual([
    "connection",
    "cookie",
    "e2b-sandbox-id",
    "e2b-sandbox-port",
    "host",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-kept",
  ]);
  expect(headers).toMatchObject({ cookie: "a=1" });
});

test("a sandbox has a host of its own; only there may any page read its replies", async () => {
  const host = `${echo.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const own = await service.call({ path: "/x", headers: { host, "x-api-key": "" } });
  expect({ body: own.body, cors: own.headers["access-control-allow-origin"] }).toEqual({
    body: expect.objectContaining({ url: "/x" }),
    cors: "*",
  });
  expect(own.headers["set-cookie"]).toEqual(["a=1; Path=/", "b=2; Path=/"]);
  const { sandboxID } = sandbox;
  const shared = await service.enter({ sandboxID, port: echo.port }, { path: "/x" });
  expect(shared.headers["access-control-allow-origin"]).toBeUndefined();
});

test("a private sandbox asks for the traffic token on every port but the daemon's", async () => {
  const closed = await service.create({
    network: { allowPublicTraffic: false, maskRequestHost: "app.test:${PORT}" },
  });
  const { sandboxID } = closed;
  const enter = (headers: Record<string, string>) =>
    service.enter({ sandboxID, port: echo.port }, { path: "/", headers });
  const text = "Sandbox is secured with traffic access token. ";
  expect(await enter({})).toMatchObject({
    status: 403,
    body: {
      sandboxId: sandboxID,
      message: `${text}Token header 'e2b-traffic-access-token' is missing`,
      code: 403,
    },
  });
  expect(await enter({ "e2b-traffic-access-token": "no" })).toMatchObject({
    status: 403,
    body: {
      message: `${text}Provided token in header 'e2b-traffic-access-token' is invalid`,
    },
  });
  const token = String(closed.trafficAccessToken);
  const entered = await enter({ "e2b-traffic-access-token": token });
  expect(seen(entered.text)).toMatchObject({
    host: `app.test:${echo.port}`,
    "x-forwarded-host": "localhost",
  });
  expect((await service.enter(closed, { path: "/health" })).status).toBe(204);
});

test("a signed file URL without an address finds its sandbox", async () => {
  const path = join(service.home, "work", "signed.txt");
  await writeFile(path, "contents");
  const token = String(sandbox.envdAccessToken);
  const signature = signFile({ path, operation: "read", username: "" }, token);
  const query = new URLSearchParams({ path, signature });
  const send = (text: string) =>
    service.call({ path: `/files?${text}`, headers: { "x-api-key": "" } });
  expect(await send(query.toString())).toMatchObject({ status: 200, text: "contents" });
  query.set("path", "/etc/hostname");
  expect(await send(query.toString())).toMatchObject({
    status: 401,
    body: { code: 401, message: "invalid signature" },
  });
  expect(await send("path=a")).toMatchObject({ status: 400 });
});

test("bytes stream both ways, as they come", async () => {
  const reply = httpRequest({
    socketPath: service.embedded.socketPath,
    method: "POST",
    path: "/echo",
    headers: upgradeTo(echo.port, "echo"),
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  reply.on("error", reject);
  reply.on("upgrade", (_response, socket) => {
    let received = "";
    socket.on("data", (chunk) => {
      received += String(chunk);
      if (received === "one") socket.write("two");
      if (received === "onetwo") socket.end(() => resolve(received));
    });
    socket.write("one");
  });
  reply.end();
  expect(await promise).toBe("onetwo");
});

test("an answer that comes before the request has ended arrives whole", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const reused: boolean[] = [];
  for (let round = 0; round < 3; round += 1) {
    const call = httpRequest({
      agent,
      socketPath: service.embedded.socketPath,
      method: "POST",
      path: "/early",
      headers: {
        "e2b-sandbox-id": sandbox.sandboxID,
        "e2b-sandbox-port": String(echo.port),
        "transfer-encoding": "chunked",
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    call.on("response", resolve);
    call.on("error", reject);
    call.write("x".repeat(200_000));
    const response = await promise;
    call.write("y".repeat(200_000));
    call.end("z");
    let body = "";
    for await (const chunk of response) body += String(chunk);
    expect({ status: response.statusCode, body }).toEqual({ status: 200, body: "early" });
    reused.push(call.reusedSocket);
  }
  agent.destroy();
  expect(reused).toEqual([false, true, true]);
});

function upgradeTo(port: number, protocol: string): Record<string, string> {
  return {
    host: "localhost",
    connection: "Upgrade",
    upgrade: protocol,
    "e2b-sandbox-id": sandbox.sandboxID,
    "e2b-sandbox-port": String(port),
  };
}

test.for([
  { name: "that the service refuses", port: () => echo.port, status: 426, text: "no" },
  { name: "to a closed port", port: () => 9, status: 502, text: "port is not open" },
])("an upgrade $name is answered, and the connection ends", async ({ port, status, text }) => {
  const call = httpRequest({
    socketPath: service.embedded.socketPath,
    headers: upgradeTo(port(), "other"),
  });
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  call.on("response", resolve);
  call.on("error", reject);
  call.end();
  const response = await promise;
  let body = "";
  for await (const chunk of response) body += String(chunk);
  expect({ status: response.statusCode, connection: response.headers.connection }).toEqual({
    status,
    connection: "close",
  });
  expect(body).toContain(text);
});

/** As curl and Java's client send it with their first request. */
const OFFER = {
  connection: "Upgrade, HTTP2-Settings",
  upgrade: "h2c",
  "http2-settings": "AAMAAABkAAQBAAAAAAIAAAAA",
};

async function sendOffer(headers: Record<string, string>, path: string, body = "") {
  const call = httpRequest({
    socketPath: service.embedded.socketPath,
    method: body === "" ? "GET" : "POST",
    path,
    headers: { host: "localhost", "x-api-key": service.embedded.apiKey, ...headers },
  });
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  call.on("response", resolve);
  call.on("upgrade", () => reject(new Error("it was upgraded")));
  call.on("error", reject);
  call.end(body);
  const response = await promise;
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text };
}

test.for([
  OFFER,
  { connection: "Upgrade", upgrade: "h2c" },
  { "http2-settings": OFFER["http2-settings"] },
])("an offer of HTTP/2 is ignored and goes no further: %j", async (offer) => {
  const { sandboxID } = sandbox;
  const address = { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": String(echo.port) };
  for (const body of ["", "a body"]) {
    const { status, text } = await sendOffer({ ...offer, ...address }, "/", body);
    expect(status).toBe(200);
    const passed = Object.keys(seen(text));
    expect(passed).not.toContain("http2-settings");
    expect(passed).not.toContain("upgrade");
  }
  expect((await sendOffer(offer, "/health")).status).toBe(204);
  expect((await sendOffer(offer, "/sandboxes")).status).toBe(200);
});

test.for(["pause", "kill"] as const)("%s breaks an open stream", async (operation) => {
  const { sandboxID } = await service.create();
  const reply = await request("http://localhost/drip", {
    dispatcher: service.dispatcher,
    headers: { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": String(echo.port) },
  });
  expect(reply.statusCode).toBe(200);
  const chunks = reply.body[Symbol.asyncIterator]();
  expect(String((await chunks.next()).value)).toBe("first");
  const [next] = await Promise.allSettled([
    chunks.next(),
    service.embedded.sandboxes[operation](sandboxID, true),
  ]);
  expect(next).toMatchObject({ status: "rejected", reason: { code: "UND_ERR_SOCKET" } });
});

test("a client that goes away takes its connection into the sandbox along", async () => {
  await using own = await startEchoServer();
  const { sandboxID } = sandbox;
  const reply = await request("http://localhost/drip", {
    dispatcher: service.dispatcher,
    headers: { "e2b-sandbox-id": sandboxID, "e2b-sandbox-port": String(own.port) },
  });
  await expect.poll(() => own.countConnections()).toBe(1);
  reply.body.on("error", () => undefined).destroy();
  await expect.poll(() => own.countConnections()).toBe(0);
});

test("ten megabytes pass unchanged in both directions", async () => {
  const path = join(service.home, "work", "large.bin");
  const headers = {
    "e2b-sandbox-id": sandbox.sandboxID,
    "e2b-sandbox-port": "49983",
    "x-access-token": String(sandbox.envdAccessToken),
  };
  const bytes = Buffer.alloc(10 * 1024 * 1024, "0123456789abcdef!");
  const url = `http://localhost/files?${new URLSearchParams({ path }).toString()}`;
  const { dispatcher } = service;
  const sent = await request(url, {
    dispatcher,
    method: "POST",
    headers: { ...headers, "content-type": "application/octet-stream" },
    body: Readable.from([bytes.subarray(0, 5_000_000), bytes.subarray(5_000_000)]),
  });
  expect(sent.statusCode).toBe(200);
  await sent.body.dump();
  const received = await request(url, { dispatcher, headers });
  expect(Buffer.from(await received.body.arrayBuffer()).equals(bytes)).toBe(true);
});
