/** Faulty messages over HTTP: each request gets an answer with its id, and the session goes on. */

import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { pino } from "pino";
import { expect, test } from "vitest";
import { randomMessages } from "../../support/hostile/malformed-random.ts";
import { malformedMessages } from "../../support/hostile/malformed.ts";
import { startEndpoint } from "../../support/mcp/mcp-endpoint.ts";
import { INITIALIZE } from "../../support/mcp/stdio-connection.ts";
import { createRandom, printedSeed } from "../../support/random.ts";

const RANDOM_MESSAGES = 500;
const PING = { jsonrpc: "2.0", id: "alive", method: "ping" };

/** The messages of a reply, whatever its form. */
async function messagesOf(reply: Response): Promise<Record<string, unknown>[]> {
  const text = await reply.text();
  const isStream = reply.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream) return text === "" ? [] : [JSON.parse(text)].flat();
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

async function open(endpoint: Awaited<ReturnType<typeof startEndpoint>>) {
  const reply = await endpoint.post({ jsonrpc: "2.0", ...INITIALIZE });
  await reply.text();
  return { "mcp-session-id": reply.headers.get("mcp-session-id") ?? "" };
}

test("an answer to a request without a session has the request's id", async () => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post({ ...PING, id: 7 });
  expect(await reply.json()).toMatchObject({ id: 7, error: { code: -32_000 } });
});

test("a byte order mark is ignored", async () => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post(`\uFEFF${JSON.stringify({ jsonrpc: "2.0", ...INITIALIZE })}`);
  expect(await messagesOf(reply)).toEqual([expect.objectContaining({ id: 1 })]);
});

test("a request that is no valid one is -32600 with its id", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const reply = await endpoint.post({ jsonrpc: "1.0", id: 4, method: "ping" }, headers);
  expect([reply.status, await reply.json()]).toEqual([
    400,
    { jsonrpc: "2.0", id: 4, error: { code: -32_600, message: expect.any(String) } },
  ]);
});

test("a second handshake in a session is refused with its id", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const reply = await endpoint.post({ jsonrpc: "2.0", ...INITIALIZE, id: 9 }, headers);
  expect([reply.status, await reply.json()]).toMatchObject([
    400,
    { id: 9, error: { code: -32_600 } },
  ]);
});

test.for([
  { name: "levels", params: "[".repeat(100) + "]".repeat(100), status: 400 },
  { name: "values", params: `[${"0,".repeat(40_000)}0]`, status: 413 },
])("a request with too many $name is -32600 with its id", async ({ params, status }) => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const body = `{"jsonrpc":"2.0","method":"ping","params":{"id":9,"a":${params}},"id":7}`;
  const reply = await endpoint.post(body, headers);
  expect(reply.status).toBe(status);
  expect(await reply.json()).toMatchObject({ id: 7, error: { code: -32_600 } });
});

test("a request that is not in UTF-8 is -32600 with its id, not another text", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const text = JSON.stringify({ ...PING, id: 7, params: { _meta: { a: "ö" } } });
  const body = new Blob([Buffer.from(text, "latin1")]);
  const reply = await endpoint.post(body, headers);
  expect([reply.status, await reply.json()]).toMatchObject([
    400,
    { id: 7, error: { code: -32_600, message: "JSON is not in UTF-8" } },
  ]);
});

test("a handshake that lacks something is -32602 with its id and says what it needs", async () => {
  await using endpoint = await startEndpoint();
  const params = { protocolVersion: "2025-11-25", capabilities: {} };
  const reply = await endpoint.post({ jsonrpc: "2.0", ...INITIALIZE, id: 9, params });
  expect([reply.status, await reply.json()]).toMatchObject([
    400,
    { id: 9, error: { code: -32_602, message: expect.stringContaining("clientInfo") } },
  ]);
});

test.for(["a hundred malformed bodies", "five hundred by chance"])(
  "%s: an answer for each id, and the session goes on",
  { timeout: 30_000 },
  async (name) => {
    await using endpoint = await startEndpoint();
    const headers = await open(endpoint);
    const bodies =
      name === "a hundred malformed bodies"
        ? malformedMessages()
        : randomMessages(createRandom(printedSeed("bodies over HTTP")), RANDOM_MESSAGES);
    expect(bodies.length).toBeGreaterThanOrEqual(100);
    for (const { line, id } of bodies) {
      const reply = await endpoint.post(line, headers);
      expect(reply.status).toBeLessThan(500);
      const messages = await messagesOf(reply);
      if (id === undefined) continue;
      expect([line.slice(0, 200), messages.map((message) => message["id"])]).toEqual([
        line.slice(0, 200),
        [id],
      ]);
    }
    const alive = await messagesOf(await endpoint.post(PING, headers));
    expect(alive).toEqual([{ jsonrpc: "2.0", id: "alive", result: {} }]);
  },
);

async function openOlder(endpoint: Awaited<ReturnType<typeof startEndpoint>>) {
  const params = { ...INITIALIZE.params, protocolVersion: "2025-03-26" };
  const reply = await endpoint.post({ jsonrpc: "2.0", ...INITIALIZE, params });
  await reply.text();
  return { "mcp-session-id": reply.headers.get("mcp-session-id") ?? "" };
}

test("a batch is for the one revision that has batches, and of at most 100 messages", async () => {
  await using endpoint = await startEndpoint();
  const batch = ["a", "b"].map((id) => ({ ...PING, id }));
  const newer = await endpoint.post(batch, await open(endpoint));
  expect([newer.status, await newer.json()]).toMatchObject([
    400,
    { id: null, error: { code: -32_600, message: expect.stringContaining("2025-11-25 has no") } },
  ]);
  const headers = await openOlder(endpoint);
  const older = await messagesOf(await endpoint.post(batch, headers));
  expect(older.map(({ id }) => id)).toEqual(["a", "b"]);
  const many = Array.from({ length: 101 }, (_, id) => ({ ...PING, id }));
  expect((await endpoint.post(many, headers)).status).toBe(400);
  expect((await endpoint.post([{ jsonrpc: "2.0", ...INITIALIZE }])).status).toBe(400);
});

test("a batch ends though one of its requests was cancelled", async () => {
  await using endpoint = await startEndpoint();
  const headers = await openOlder(endpoint);
  const input = {
    sandbox_id: await endpoint.world.createSandbox(),
    path: "/tmp",
    wait_seconds: 50,
  };
  const params = { name: "watch_path", arguments: input };
  const batch = [
    { jsonrpc: "2.0", id: 2, method: "tools/call", params },
    { ...PING, id: 3 },
  ];
  const reply = await endpoint.post(batch, headers);
  const cancelled = { method: "notifications/cancelled", params: { requestId: 2 } };
  await endpoint.post([{ jsonrpc: "2.0", ...cancelled }], headers);
  const messages = await messagesOf(reply);
  expect(messages).toContainEqual({ jsonrpc: "2.0", id: 3, result: {} });
  expect(messages).toContainEqual(
    expect.objectContaining({ id: 2, error: { code: -32_000, message: "Request cancelled" } }),
  );
});

test("a request of a batch that is cancelled after its reply gets no second one", async () => {
  await using endpoint = await startEndpoint();
  const headers = await openOlder(endpoint);
  const input = {
    sandbox_id: await endpoint.world.createSandbox(),
    path: "/tmp",
    wait_seconds: 2,
  };
  const params = { name: "watch_path", arguments: input };
  const batch = [
    { jsonrpc: "2.0", id: 2, method: "tools/call", params },
    { ...PING, id: 3 },
  ];
  const reply = await endpoint.post(batch, headers);
  const cancelled = { method: "notifications/cancelled", params: { requestId: 3 } };
  await endpoint.post({ jsonrpc: "2.0", ...cancelled }, headers);
  const ids = (await messagesOf(reply)).map(({ id }) => id);
  expect(ids).toEqual([3, 2]);
});

/** A call that waits for a while, for a session that was opened. */
async function callOf(endpoint: Awaited<ReturnType<typeof startEndpoint>>) {
  const sandbox_id = await endpoint.world.createSandbox();
  const params = { name: "watch_path", arguments: { sandbox_id, path: "/tmp", wait_seconds: 2 } };
  return { jsonrpc: "2.0", id: 2, method: "tools/call", params };
}

const IN_USE = [400, { id: 2, error: { code: -32_600 } }];

test("a request with the id of one that waits is refused, and that one gets its reply", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const waiting = await endpoint.post(await callOf(endpoint), headers);
  const second = await endpoint.post({ ...PING, id: 2 }, headers);
  expect([second.status, await second.json()]).toMatchObject(IN_USE);
  // The reply of a host has an id of ours, which is no request of its own.
  const reply = await endpoint.post({ jsonrpc: "2.0", id: 2, result: {} }, headers);
  expect(reply.status).toBe(202);
  expect(await messagesOf(waiting)).toEqual([
    expect.objectContaining({ id: 2, result: expect.anything() }),
  ]);
  expect(await messagesOf(await endpoint.post({ ...PING, id: 2 }, headers))).toHaveLength(1);
});

test("a call whose stream was dropped keeps its id until it has ended", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const call = await callOf(endpoint);
  const leave = new AbortController();
  const calling = await endpoint.post(call, headers, leave.signal);
  leave.abort();
  await calling.text().catch(() => undefined);
  const ping = async () => {
    const reply = await endpoint.post({ ...PING, id: 2 }, headers);
    await reply.text();
    return reply.status;
  };
  expect(await ping()).toBe(400);
  await expect.poll(ping, { timeout: 10_000 }).toBe(200);
});

test.for(["before", "behind"])(
  "a batch with the cancellation of its own request %s it ends",
  async (place) => {
    await using endpoint = await startEndpoint();
    const headers = await openOlder(endpoint);
    const call = await callOf(endpoint);
    const cancelled = {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: 2 },
    };
    const pair = place === "before" ? [cancelled, call] : [call, cancelled];
    const replies = await messagesOf(await endpoint.post([...pair, { ...PING, id: 3 }], headers));
    expect(replies.map(({ id }) => id)).toEqual([3, 2]);
    expect(replies[1]).toHaveProperty("error.message", "Request cancelled");
  },
);

test("an id that a batch has twice is refused", async () => {
  await using endpoint = await startEndpoint();
  const headers = await openOlder(endpoint);
  const reply = await endpoint.post([PING, PING], headers);
  expect([reply.status, await reply.json()]).toMatchObject([400, { error: { code: -32_600 } }]);
});

test("the id of a request that was refused as a whole is free", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const refused = await endpoint.post({ ...PING, id: 2 }, { ...headers, accept: "text/html" });
  expect(refused.status).toBe(406);
  await refused.text();
  const ping = async () => (await endpoint.post({ ...PING, id: 2 }, headers)).status;
  await expect.poll(ping).toBe(200);
});

test("a host that leaves within its body is no fault of the server", async () => {
  const lines: string[] = [];
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(line) });
  await using endpoint = await startEndpoint(undefined, { log });
  const { hostname, port } = new URL(endpoint.url);
  const socket = connect(Number(port), hostname);
  const head = ["POST /mcp HTTP/1.1", "Host: x", "Authorization: Bearer key-alice"];
  socket.write([...head, "Content-Length: 100", "", '{"jsonrpc":'].join("\r\n"));
  await expect.poll(() => endpoint.handled.length).toBe(1);
  socket.destroy();
  await Promise.all(endpoint.handled);
  expect(lines).toEqual([]);
});

test.for(["TRACE", "PUT", "OPTIONS", "QUERY"])(
  "%s is refused with the methods that there are, and is no fault of the server",
  async (method) => {
    const lines: string[] = [];
    const log = pino({ level: "debug" }, { write: (line) => void lines.push(line) });
    await using endpoint = await startEndpoint(undefined, { log });
    const headers = { authorization: "Bearer key-alice" };
    const asked = request(endpoint.url, { method, headers }).end();
    const [reply]: IncomingMessage[] = await once(asked, "response");
    expect([reply?.statusCode, reply?.headers.allow]).toEqual([405, "GET, POST, DELETE"]);
    expect(lines).toEqual([]);
  },
);

test("a deleted session ends its calls, and is gone", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const input = { sandbox_id: await endpoint.world.createSandbox(), cmd: "exec sleep 40" };
  const params = { name: "run_process", arguments: { ...input, wait_seconds: 50 } };
  const reply = await endpoint.post(
    { jsonrpc: "2.0", id: 2, method: "tools/call", params },
    headers,
  );
  const running = async () =>
    (await endpoint.world.call("list_processes", { sandbox_id: input.sandbox_id })).text;
  await expect.poll(running, { timeout: 10_000 }).toContain("sleep 40");
  const authorization = "Bearer key-alice";
  const ended = await fetch(endpoint.url, {
    method: "DELETE",
    headers: { authorization, ...headers },
  });
  expect(ended.status).toBe(200);
  expect(await messagesOf(reply)).toEqual([]);
  await expect.poll(running, { timeout: 10_000 }).not.toContain("sleep 40");
  expect((await endpoint.post(PING, headers)).status).toBe(404);
});

test("a resumption by any event id is the one stream of the session", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  const accept = { accept: "text/event-stream", authorization: "Bearer key-alice" };
  const resume = async (id: string) => {
    const leave = new AbortController();
    const reply = await fetch(endpoint.url, {
      headers: { ...accept, ...headers, "last-event-id": id },
      signal: leave.signal,
    });
    leave.abort();
    return reply.status;
  };
  for (const id of ["0", "_GET_stream_1", "x".repeat(4_000), "../../a%00", "constructor"]) {
    await expect.poll(() => resume(id)).toBe(200);
  }
});

test.for(["", "1999-01-01", "2099-01-01", "x".repeat(1_000)])(
  "the unknown revision %j of a header is refused, and the session goes on",
  async (revision) => {
    await using endpoint = await startEndpoint();
    const headers = await open(endpoint);
    const reply = await endpoint.post(PING, { ...headers, "mcp-protocol-version": revision });
    expect([revision, reply.status]).toEqual([revision, 400]);
    await reply.text();
    expect((await endpoint.post(PING, headers)).status).toBe(200);
  },
);
