/** Replies of services in a sandbox, byte for byte: what HTTP allows passes through the gateway as it is. */

import { connect, createServer, type Socket } from "node:net";
import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
let sandbox: SandboxBody;
beforeAll(async () => {
  service = await startTestService();
  sandbox = await service.create();
});
afterAll(() => service[Symbol.asyncDispose]());

/** A service inside that answers each connection once. */
async function startInside(answer: (socket: Socket) => void) {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => answer(socket));
  });
  const port = await listenOnLoopback(server);
  return { port, [Symbol.dispose]: () => void server.close() };
}

/** All that a client reads whose request is answered so. */
async function relayed(
  answer: (socket: Socket) => void,
  method = "GET",
  headers = "Connection: close\r\n",
): Promise<string> {
  using inside = await startInside(answer);
  const client = connect(service.embedded.socketPath);
  client.write(
    `${method} / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: ${sandbox.sandboxID}\r\n` +
      `E2b-Sandbox-Port: ${inside.port}\r\n${headers}\r\n`,
  );
  let text = "";
  for await (const chunk of client.setEncoding("latin1")) text += String(chunk);
  return text;
}

const UTF8_NAME = Buffer.from('attachment; filename="é.txt"').toString("latin1");

test.for(["GET", "HEAD"])("bytes beyond ASCII in a head pass unchanged, %s", async (method) => {
  const head = [
    "HTTP/1.1 200 Tr\u00e8s bien",
    `Content-Disposition: ${UTF8_NAME}`,
    "Content-Length: 2",
    "Connection: close",
  ];
  const text = await relayed(
    (socket) => socket.end(`${head.join("\r\n")}\r\n\r\n${method === "GET" ? "hi" : ""}`, "latin1"),
    method,
  );
  expect(text).toContain("HTTP/1.1 200 Tr\u00e8s bien\r\n");
  expect(text).toContain(`\r\nContent-Disposition: ${UTF8_NAME}\r\n`);
  expect(text.endsWith(method === "GET" ? "\r\n\r\nhi" : "\r\n\r\n")).toBe(true);
});

test("a head passes before its body", async () => {
  const { promise: body, resolve: goOn } = Promise.withResolvers<void>();
  using inside = await startInside((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    void body.then(() => socket.end("hi"));
  });
  const reply = await request("http://localhost/", {
    dispatcher: service.dispatcher,
    headers: { "e2b-sandbox-id": sandbox.sandboxID, "e2b-sandbox-port": String(inside.port) },
  });
  goOn();
  expect(await reply.body.text()).toBe("hi");
});

test("bytes behind a reply take nothing from it", async () => {
  const reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
  const text = await relayed((socket) => socket.end(`${reply} and more`));
  expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(text.endsWith("\r\n\r\nhi")).toBe(true);
});

const BAD_REPLIES: readonly { name: string; reply: string; says: string }[] = [
  {
    name: "a head of 20 KiB",
    reply: `HTTP/1.1 200 OK\r\nX-Long: ${"x".repeat(20_480)}\r\nContent-Length: 0\r\n\r\n`,
    says: "The program on the port sent a reply whose headers are longer than 16 KiB",
  },
  {
    name: "nothing",
    reply: "",
    says: "The program on the port closed the connection before its reply",
  },
  ...["SSH-2.0-OpenSSH_9.2\r\n", "<html>HTTP/0.9</html>", "HTTP/1.1 999 Odd\r\n\r\n"].map(
    (reply) => ({
      name: JSON.stringify(reply),
      reply,
      says: "The program on the port sent no valid HTTP reply",
    }),
  ),
];

test.for(BAD_REPLIES)("a service that answers with $name is not told as closed", async (bad) => {
  for (const protocol of [
    "Connection: close\r\n",
    "Connection: Upgrade\r\nUpgrade: websocket\r\n",
  ]) {
    const text = await relayed((socket) => socket.end(bad.reply), "GET", protocol);
    expect(text).toMatch(/^HTTP\/1\.1 502 /);
    expect(text).toContain(`"message":"${bad.says}"`);
  }
});

test("interim replies without end are a port that does not answer", async () => {
  const piece = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
  const text = await relayed((socket) => {
    const send = () => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on("drain", send);
    send();
  });
  expect(text).toMatch(/^HTTP\/1\.1 502 /);
});

test("a few interim replies take nothing from the reply", async () => {
  const interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(100);
  const text = await relayed((socket) =>
    socket.end(`${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi`),
  );
  expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(text.endsWith("\r\n\r\nhi")).toBe(true);
});

test("a reply in chunks of a byte goes on in the chunks that came at once", async () => {
  const count = 200_000;
  const text = await relayed((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    socket.end(`${"1\r\nx\r\n".repeat(count)}0\r\n\r\n`);
  });
  expect(text.match(/x/g)).toHaveLength(count);
  expect(text.length).toBeLessThan(1.2 * count);
});
