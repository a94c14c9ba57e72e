/** One stdio connection: both eras, nothing but JSON-RPC on stdout, every way in which it ends. */

import { expect, test } from "vitest";
import { connect, INITIALIZE, type Connection } from "../../support/mcp/stdio-connection.ts";

const MODERN = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};

test("an older host shakes hands and lists tools", async () => {
  await using connection = connect();
  connection.send(INITIALIZE);
  expect(await connection.answer(1)).toMatchObject({
    result: {
      protocolVersion: "2025-11-25",
      serverInfo: { name: "sandbox-mcp", title: "Sandboxes", version: "0.0.0" },
      capabilities: {
        tools: { listChanged: false },
        resources: { subscribe: true, listChanged: true },
        completions: {},
        logging: {},
      },
      instructions: expect.stringContaining("create_sandbox"),
    },
  });
  connection.send({ method: "notifications/initialized" });
  connection.send({ id: 2, method: "tools/list" });
  const { result } = await connection.answer(2);
  expect(JSON.stringify(result)).toContain('"run_process"');
});

test("a newer host needs no handshake", async () => {
  await using connection = connect();
  connection.send({ id: 1, method: "server/discover", params: { _meta: MODERN } });
  expect(await connection.answer(1)).toMatchObject({
    result: { supportedVersions: ["2026-07-28"], resultType: "complete" },
  });
  connection.send({ id: 2, method: "tools/list", params: { _meta: MODERN } });
  expect(await connection.answer(2)).toMatchObject({
    result: { ttlMs: 300_000, cacheScope: "public", tools: expect.any(Array) },
  });
});

test.for([
  ["2025-11-25", 1],
  ["2024-11-05", 0],
] as const)("a host of %s hears %i times of a new log unasked", async ([revision, count]) => {
  await using connection = connect();
  const { logs } = connection.state;
  connection.send({ ...INITIALIZE, params: { ...INITIALIZE.params, protocolVersion: revision } });
  expect(await connection.answer(1)).toMatchObject({ result: { protocolVersion: revision } });
  connection.send({ method: "notifications/initialized" });
  connection.send({ id: 2, method: "resources/list" });
  await connection.answer(2);
  const { promise: isTold, resolve: listChanged } = Promise.withResolvers<void>();
  logs.observe({ updated() {}, listChanged });
  logs.open("i1");
  await isTold;
  connection.send({ id: 3, method: "ping" });
  await connection.answer(3);
  const changes = connection.messages.filter(
    ({ method }) => method === "notifications/resources/list_changed",
  );
  expect(changes.length).toBe(count);
});

test("a newer host hears of the logs that it listens to, and of no others", async () => {
  await using connection = connect();
  const { logs } = connection.state;
  logs.open("i1");
  logs.open("i2");
  const notifications = { resourceSubscriptions: ["sandbox:///i1/log"] };
  const params = { _meta: MODERN, notifications };
  connection.send({ id: 5, method: "subscriptions/listen", params });
  const told = (method: string) =>
    connection.messages.filter((message) => message["method"] === method);
  await expect.poll(() => told("notifications/subscriptions/acknowledged").length).toBe(1);
  logs.note("i2", "p_1", "started");
  logs.note("i1", "p_1", "started");
  await expect
    .poll(() => told("notifications/resources/updated"))
    .toEqual([
      expect.objectContaining({ params: expect.objectContaining({ uri: "sandbox:///i1/log" }) }),
    ]);
});

test("a host may look first and then shake hands", async () => {
  await using connection = connect();
  connection.send({ id: 7, method: "server/discover", params: { _meta: MODERN } });
  await connection.answer(7);
  connection.send(INITIALIZE);
  expect(await connection.answer(1)).toMatchObject({ result: { protocolVersion: "2025-11-25" } });
});

test("where only the older era is wanted, a probe is refused and the handshake works", async () => {
  await using connection = connect("legacy");
  connection.send({ id: 7, method: "server/discover", params: { _meta: MODERN } });
  expect(await connection.answer(7)).toMatchObject({ error: { code: expect.any(Number) } });
  connection.send(INITIALIZE);
  expect(await connection.answer(1)).toMatchObject({ result: { protocolVersion: "2025-11-25" } });
});

test("an unknown tool is a protocol fault, a service that is away a tool error", async () => {
  await using connection = connect();
  connection.send(INITIALIZE);
  await connection.answer(1);
  connection.send({ id: 2, method: "tools/call", params: { name: "no_such_tool", arguments: {} } });
  expect(await connection.answer(2)).toMatchObject({ error: { code: -32_602 } });
  const call = { name: "create_sandbox", arguments: {} };
  connection.send({ id: 3, method: "tools/call", params: call });
  expect(await connection.answer(3)).toMatchObject({
    result: { isError: true, content: [{ text: expect.stringMatching(/^unavailable: /) }] },
  });
});

test.for([
  { name: "stdin ends", act: ({ stdin }: Connection) => stdin.end(), reason: "stdin closed" },
  { name: "stdin breaks", act: ({ stdin }: Connection) => stdin.destroy(), reason: "stdin closed" },
  {
    name: "stdout breaks",
    act: ({ stdout }: Connection) => stdout.destroy(new Error("EPIPE")),
    reason: "stdout closed",
  },
  {
    name: "the parent is gone",
    act: (each: Connection) => each.setParent(1),
    reason: "parent gone",
  },
  { name: "it is stopped", act: (each: Connection) => each.stop(), reason: "stopped" },
])("before the first message, it ends when $name", async ({ act, reason }) => {
  await using connection = connect();
  act(connection);
  expect(await connection.ended).toBe(reason);
});

test("it ends when stdin does, in the middle of a conversation", async () => {
  await using connection = connect();
  connection.send(INITIALIZE);
  await connection.answer(1);
  connection.stdin.end();
  expect(await connection.ended).toBe("stdin closed");
});
