/** MCP over HTTP: who may enter, both eras, sessions of older hosts. */

import {
  Client as NewerClient,
  StreamableHTTPClientTransport as NewerTransport,
} from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startEndpoint } from "../../support/mcp/mcp-endpoint.ts";

async function connectHost(url: string, key = "key-alice"): Promise<Client> {
  const client = new Client({ name: "http-host", version: "1.0.0" });
  const headers = { authorization: `Bearer ${key}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
  );
  return client;
}

const LIST = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };

test.for([
  { name: "no token", headers: { authorization: "" }, status: 401 },
  { name: "a wrong token", headers: { authorization: "Bearer nobody" }, status: 401 },
  { name: "a foreign page", headers: { origin: "https://evil.example" }, status: 403 },
  { name: "no session", headers: {}, status: 400 },
  { name: "an unknown session", headers: { "mcp-session-id": "x" }, status: 404 },
])("$name is answered with $status", async ({ headers, status }) => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post(LIST, headers);
  expect(reply.status).toBe(status);
  const challenge = reply.headers.get("www-authenticate");
  expect(challenge).toBe(status === 401 ? "Bearer" : null);
});

test("a request with the header of the control API is told which one is needed", async () => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post(LIST, { authorization: "", "x-api-key": "e2b_0" });
  expect(await reply.json()).toEqual({
    error: "invalid_token",
    error_description: "send the header Authorization: Bearer with an API key of this service",
  });
});

test("a body that is no JSON is a parse error, one that is too large is refused", async () => {
  await using endpoint = await startEndpoint();
  const broken = await endpoint.post("{");
  expect([broken.status, await broken.json()]).toEqual([
    400,
    { jsonrpc: "2.0", id: null, error: { code: -32_700, message: "Parse error" } },
  ]);
  expect((await endpoint.post(" ".repeat(17 * 1024 * 1024))).status).toBe(413);
});

test("the longest content that a tool takes fits into a body", async () => {
  await using endpoint = await startEndpoint();
  // The most bytes that a character of a script has.
  const content = "語".repeat(3_000_000);
  const params = { name: "write_file", arguments: { sandbox_id: "i1", path: "/a", content } };
  const reply = await endpoint.post({ ...LIST, method: "tools/call", params });
  // What is missing here was looked for behind the body.
  expect([reply.status, await reply.text()]).toEqual([
    400,
    expect.stringContaining("Missing session"),
  ]);
});

test.for([
  {
    name: "too many values",
    body: `[${"{},".repeat(50_000)}{}]`,
    status: 413,
    message: "JSON has more than 32768 values",
  },
  {
    name: "too many levels",
    body: "[".repeat(1_000_000),
    status: 400,
    message: "JSON has more than 64 levels",
  },
])("a body of $name is refused unparsed", async ({ body, status, message }) => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post(body);
  const error = { code: -32_600, message };
  expect([reply.status, await reply.json()]).toEqual([status, { jsonrpc: "2.0", id: null, error }]);
});

/** The official Python client refuses a longer event. */
const MAX_EVENT_BYTES = 1024 * 1024;

test("a picture that makes an event too long for clients is named, a smaller one shown", async () => {
  await using endpoint = await startEndpoint();
  const { world } = endpoint;
  const client = await connectHost(endpoint.url);
  const sandbox_id = await world.createSandbox();
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const read = async (extraBytes: number) => {
    const picture = Buffer.concat([Buffer.from(pixel, "base64"), Buffer.alloc(extraBytes)]);
    const file = { sandbox_id, path: `${world.folder}/picture.png` };
    const content = picture.toString("base64");
    await world.call("write_file", { ...file, content, encoding: "base64" });
    const { content: blocks } = await client.callTool({ name: "read_file", arguments: file });
    return JSON.stringify(blocks);
  };
  const shown = await read(599_000);
  expect(shown).toContain('"type":"image"');
  expect(shown.length).toBeLessThan(MAX_EVENT_BYTES);
  expect(await read(600_001)).toContain("image/png of more than 600 KB, too large to be shown");
  await client.close();
});

test("an older host works in a session, with progress", async () => {
  await using endpoint = await startEndpoint();
  const client = await connectHost(endpoint.url);
  const sandboxId = await endpoint.world.createSandbox();
  const messages: (string | undefined)[] = [];
  const input = { sandbox_id: sandboxId, cmd: "/bin/sh", args: ["-c", "echo hi"] };
  const reply = await client.callTool({ name: "run_process", arguments: input }, undefined, {
    onprogress: ({ message }) => messages.push(message),
  });
  expect(JSON.stringify(reply.content)).toContain("hi");
  expect(messages[0]).toMatch(/^started pid/);
  await client.close();
});

test("a session belongs to the one who opened it", async () => {
  await using endpoint = await startEndpoint();
  const client = await connectHost(endpoint.url);
  const { transport } = client;
  const id = transport instanceof StreamableHTTPClientTransport ? transport.sessionId : undefined;
  const headers = { authorization: "Bearer key-bob", "mcp-session-id": id ?? "" };
  expect((await endpoint.post(LIST, headers)).status).toBe(404);
  await client.close();
});

test("a stream ends when its key is revoked, and that of another key goes on", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const sandboxId = await endpoint.world.createSandbox();
  const open = async (key: string) => {
    const client = await connectHost(endpoint.url, key);
    const { transport } = client;
    const id = transport instanceof StreamableHTTPClientTransport ? transport.sessionId : undefined;
    const headers = { authorization: `Bearer ${key}`, "mcp-session-id": id ?? "" };
    const input = { sandbox_id: sandboxId, cmd: "/bin/sleep", args: ["600"], wait_seconds: 50 };
    const call = {
      ...LIST,
      // Those of the client are numbers.
      id: "call",
      method: "tools/call",
      params: { name: "run_process", arguments: input },
    };
    const reply = await endpoint.post(call, headers);
    const state = { client, isOver: false };
    const end = () => {
      state.isOver = true;
    };
    void reply.text().then(end, end);
    return state;
  };
  const [alice, bob] = [await open("key-alice"), await open("key-bob")];
  await clock.advance(11_000);
  expect([alice.isOver, bob.isOver]).toEqual([false, false]);
  endpoint.revoke("key-alice");
  await clock.advance(6_000);
  await expect.poll(() => [alice.isOver, bob.isOver]).toEqual([true, false]);
  await bob.client.callTool({ name: "kill_sandbox", arguments: { sandbox_id: sandboxId } });
  for (const { client } of [alice, bob]) await client.close();
});

test("a handshake that is refused leaves nothing behind", async () => {
  await using endpoint = await startEndpoint();
  const reply = await endpoint.post(INITIALIZE, { accept: "text/html" });
  expect([reply.status, reply.headers.get("mcp-session-id")]).toEqual([406, null]);
});

test("a newer host asks without a session", async () => {
  await using endpoint = await startEndpoint();
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const reply = await endpoint.post(
    { ...LIST, params: { _meta: meta } },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" },
  );
  expect(reply.status).toBe(200);
  expect(reply.headers.get("x-accel-buffering")).toBe("no");
  expect(await reply.text()).toContain('"run_process"');
});

test.for([
  { protocol: "auto", era: "modern" },
  { protocol: "legacy", era: "legacy" },
] as const)("with $protocol a host that knows both eras is in the $era one", async (row) => {
  await using endpoint = await startEndpoint(undefined, { protocol: row.protocol });
  const info = { name: "newer-host", version: "1.0.0" };
  const client = new NewerClient(info, { versionNegotiation: { mode: "auto" } });
  const headers = { authorization: "Bearer key-alice" };
  await client.connect(new NewerTransport(new URL(endpoint.url), { requestInit: { headers } }));
  expect(client.getProtocolEra()).toBe(row.era);
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain("run_process");
  await client.close();
});

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  },
};

/** Status, session and time to come back of a handshake. */
async function openSession(endpoint: Awaited<ReturnType<typeof startEndpoint>>) {
  const reply = await endpoint.post(INITIALIZE);
  await reply.text();
  const { status, headers } = reply;
  return { status, id: headers.get("mcp-session-id"), retryAfter: headers.get("retry-after") };
}

const MINUTE_MS = 60_000;

test("beyond a hundred sessions the one idle for longest ends, and none that is in use", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const opened: (string | null)[] = [];
  for (let count = 0; count < 100; count += 1) {
    const { id } = await openSession(endpoint);
    opened.push(id);
  }
  expect(new Set(opened).size).toBe(100);
  expect(opened).not.toContain(null);
  expect(await openSession(endpoint)).toEqual({ status: 503, id: null, retryAfter: "30" });
  const statusOf = async (id: string | null | undefined) =>
    (await endpoint.post(LIST, { "mcp-session-id": id ?? "" })).status;
  await clock.advance(MINUTE_MS);
  expect(await statusOf(opened[0])).toBe(200);
  // The second is the one that nobody used for longest.
  expect(await openSession(endpoint)).toMatchObject({ status: 200, retryAfter: null });
  expect([await statusOf(opened[0]), await statusOf(opened[1])]).toEqual([200, 404]);
});

test("a session that nobody used for half an hour ends", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const { id: used } = await openSession(endpoint);
  const { id: idle } = await openSession(endpoint);
  const statusOf = async (id: string | null) =>
    (await endpoint.post(LIST, { "mcp-session-id": id ?? "" })).status;
  await clock.advance(29 * MINUTE_MS);
  expect(await statusOf(used)).toBe(200);
  await clock.advance(2 * MINUTE_MS);
  expect([await statusOf(used), await statusOf(idle)]).toEqual([200, 404]);
});

test("a wall clock that is set on by an hour ends no session", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const { id } = await openSession(endpoint);
  clock.set(clock.now() + 60 * MINUTE_MS);
  await clock.advance(2 * MINUTE_MS);
  expect((await endpoint.post(LIST, { "mcp-session-id": id ?? "" })).status).toBe(200);
});

test("a newer host that closes the stream of a call ends its process", async () => {
  await using endpoint = await startEndpoint();
  const sandboxId = await endpoint.world.createSandbox();
  const closing = new AbortController();
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    progressToken: "t",
  };
  const input = { sandbox_id: sandboxId, cmd: "/bin/sh", args: ["-c", "exec sleep 600"] };
  const reply = await fetch(endpoint.url, {
    method: "POST",
    headers: {
      authorization: "Bearer key-alice",
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "run_process",
    },
    body: JSON.stringify({
      ...LIST,
      method: "tools/call",
      params: { name: "run_process", arguments: input, _meta: meta },
    }),
    signal: closing.signal,
  });
  const running = async () =>
    (await endpoint.world.call("list_processes", { sandbox_id: sandboxId })).fields["processes"];
  await expect.poll(running).toHaveLength(1);
  closing.abort();
  await expect(reply.text()).rejects.toThrow("abort");
  await expect.poll(running).toEqual([]);
});

test("an older host that drops its connection leaves the process alone", async () => {
  await using endpoint = await startEndpoint();
  const { id } = await openSession(endpoint);
  const sandboxId = await endpoint.world.createSandbox();
  const dropping = new AbortController();
  const input = { sandbox_id: sandboxId, cmd: "/bin/sh", args: ["-c", "exec sleep 600"] };
  const calling = fetch(endpoint.url, {
    method: "POST",
    headers: {
      authorization: "Bearer key-alice",
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": id ?? "",
    },
    body: JSON.stringify({
      ...LIST,
      method: "tools/call",
      params: { name: "run_process", arguments: input },
    }),
    signal: dropping.signal,
  });
  const running = async () =>
    (await endpoint.world.call("list_processes", { sandbox_id: sandboxId })).fields["processes"];
  await expect.poll(running).toHaveLength(1);
  dropping.abort();
  await calling.then((reply) => reply.text()).catch(() => undefined);
  // Whoever asks again finds it where it was.
  expect(await running()).toHaveLength(1);
});

test("the stream of a cancelled call ends", async () => {
  await using endpoint = await startEndpoint();
  const sandboxId = await endpoint.world.createSandbox();
  const params = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "older", version: "1" },
  };
  const opened = await endpoint.post({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  await opened.text();
  const headers = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" };
  const input = { sandbox_id: sandboxId, path: "/tmp", wait_seconds: 50 };
  const call = { name: "watch_path", arguments: input };
  const reply = await endpoint.post(
    { jsonrpc: "2.0", id: 2, method: "tools/call", params: call },
    headers,
  );
  const cancelled = { method: "notifications/cancelled", params: { requestId: 2 } };
  await endpoint.post({ jsonrpc: "2.0", ...cancelled }, headers);
  expect(await reply.text()).toBe("");
});
