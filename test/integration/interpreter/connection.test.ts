/** Connections of the interpreter's server: replies that begin early, and many cells on one connection. */

import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";

const CELLS = 30;

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
  // Its first cell may wait for the kernel.
  await server.call("GET", "/health");
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

function toRequest(code: string): string {
  const body = JSON.stringify({ code, language: "javascript" });
  return `POST /execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

async function open() {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  await once(socket, "connect");
  let seen = "";
  socket.setEncoding("latin1").on("data", (part: string) => {
    seen += part;
  });
  return {
    send: (text: string) => socket.write(text),
    /** Heads and ends of replies until now, in their order, and the values between them. */
    told: () =>
      [...seen.matchAll(/HTTP\/1\.1 (?<status>\d+)|"text": "(?<text>\d+)"|\r\n0\r\n\r\n/g)].map(
        ([, status, value]) => (status === undefined ? (value ?? "end") : `status ${status}`),
      ),
    [Symbol.dispose]: () => socket.destroy(),
  };
}

function idsOf({ text }: { readonly text: string }): readonly string[] {
  return JSON.parse(text).map(({ id }: { id: string }) => id);
}

const replyOf = (value: number) => ["status 200", String(value), "end"];

test("the reply of a cell that prints nothing begins before its end", async () => {
  const leave = new AbortController();
  const body = JSON.stringify({ code: "await new Promise(() => {})", language: "js" });
  const url = `${server.url}/execute`;
  const reply = await fetch(url, { method: "POST", body, signal: leave.signal });
  expect(reply.headers.get("content-type")).toBe("application/x-ndjson");
  expect(reply.headers.get("x-accel-buffering")).toBe("no");
  leave.abort();
  expect(textOf(await server.run("7", { language: "js" }), "result")).toBe("7");
});

test("one connection is used for cell after cell", async () => {
  using connection = await open();
  const expected: string[] = [];
  for (let value = 0; value < CELLS; value += 1) {
    connection.send(toRequest(String(value)));
    expected.push(...replyOf(value));
    await expect
      .poll(() => connection.told().length, { timeout: 10_000, interval: 5 })
      .toBe(expected.length);
  }
  expect(connection.told()).toEqual(expected);
});

test("requests that are sent before the reply to the last one are answered in their order", async () => {
  using connection = await open();
  const values = [...Array(CELLS).keys()];
  connection.send(values.map((value) => toRequest(String(value))).join(""));
  const expected = values.flatMap(replyOf);
  await expect.poll(() => connection.told(), { timeout: 20_000 }).toEqual(expected);
});

test("a context whose caller left while its kernel started is not kept", async () => {
  const before = await server.call("GET", "/contexts");
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1").resume();
  const body = '{"language":"javascript"}';
  const head = `POST /contexts HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${body.length}`;
  socket.end(`${head}\r\n\r\n${body}`);
  await once(socket, "close");
  expect(idsOf(await server.call("GET", "/contexts"))).toEqual(idsOf(before));
});

test("as many connections as the gateway lets in are served", async () => {
  using all = new DisposableStack();
  for (let count = 1; count < 512; count += 1) all.use(await open());
  using last = await open();
  last.send(toRequest("5"));
  await expect.poll(() => last.told(), { timeout: 10_000 }).toEqual(replyOf(5));
});

test("a client that leaves while its cell waits for its turn holds up no other", async () => {
  using first = await open();
  first.send(toRequest("await new Promise(() => {})"));
  await expect.poll(() => first.told()).toEqual(["status 200"]);
  {
    using second = await open();
    second.send(toRequest("8"));
    await expect.poll(() => second.told()).toEqual(["status 200"]);
  }
  first[Symbol.dispose]();
  expect(textOf(await server.run("9", { language: "js" }), "result")).toBe("9");
});

function toHead(fields: string): string {
  return `POST /execute HTTP/1.1\r\nhost: localhost\r\n${fields}\r\n\r\n`;
}

/** Of a request that is large enough to be counted. */
async function firstStatus() {
  using connection = await open();
  connection.send(toRequest(`9 ${" ".repeat(65_537)}`));
  await expect.poll(() => connection.told().length).toBeGreaterThan(0);
  return connection.told()[0];
}

test("the bodies of all requests are bounded together, and small ones still pass", async () => {
  const large = toHead(`content-length: ${32 * 1024 * 1024}`);
  using held = new DisposableStack();
  for (let count = 0; count < 8; count += 1) {
    const connection = held.use(await open());
    // The answer shows that its head was read.
    connection.send(large.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n"));
    await expect.poll(connection.told).toEqual(["status 100"]);
  }
  for (const request of [
    large,
    `${toHead("transfer-encoding: chunked")}10001\r\n${"x".repeat(65_537)}\r\n`,
  ]) {
    using refused = await open();
    refused.send(request);
    await expect.poll(refused.told).toEqual(["status 429"]);
  }
  expect(textOf(await server.run("8", { language: "js" }), "result")).toBe("8");
  held.dispose();
  await expect.poll(firstStatus).toBe("status 200");
});
