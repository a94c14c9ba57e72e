/** Faulty messages on stdin: every id gets an answer, and the session goes on. */

import { PassThrough } from "node:stream";
import { expect, test, vi } from "vitest";
import { StdioTransport } from "../../../src/mcp/stdio/stdio-transport.ts";
import { randomMessages } from "../../support/hostile/malformed-random.ts";
import { malformedMessages } from "../../support/hostile/malformed.ts";
import { connect, INITIALIZE, type Connection } from "../../support/mcp/stdio-connection.ts";
import { createRandom, printedSeed } from "../../support/random.ts";

const MEBIBYTE = 1024 * 1024;
const RANDOM_MESSAGES = 500;

function request(id: number, method: string) {
  return { jsonrpc: "2.0", id, method };
}

/** The error codes of all answers so far, by id. */
function errorsOf({ messages }: Connection): unknown[] {
  return messages.flatMap((message) => {
    const { id, error } = message;
    if (typeof error !== "object" || error === null || !("code" in error)) return [];
    return [[id, error.code]];
  });
}

async function open(revision = "2025-11-25"): Promise<Connection> {
  const connection = connect();
  const params = { ...INITIALIZE.params, protocolVersion: revision };
  connection.send({ ...INITIALIZE, params });
  expect(await connection.answer(1)).toHaveProperty("result");
  return connection;
}

async function isAlive(connection: Connection): Promise<boolean> {
  connection.send({ id: "alive", method: "ping" });
  return "result" in (await connection.answer("alive"));
}

test.for([
  { name: "no JSON", line: "no json", errors: [[null, -32_700]] },
  { name: "half a message", line: '{"jsonrpc":"2.0","id":4,', errors: [[null, -32_700]] },
  { name: "an empty object", line: "{}", errors: [[null, -32_600]] },
  { name: "a number", line: "1", errors: [[null, -32_600]] },
  {
    name: "another version",
    line: '{"jsonrpc":"1.0","id":4,"method":"ping"}',
    errors: [[4, -32_600]],
  },
  { name: "no version", line: '{"id":"a","method":"ping"}', errors: [["a", -32_600]] },
  { name: "no method", line: '{"jsonrpc":"2.0","id":4}', errors: [[4, -32_600]] },
  {
    name: "an id of null",
    line: '{"jsonrpc":"2.0","id":null,"method":"ping"}',
    errors: [[null, -32_600]],
  },
  {
    name: "an id that is a list",
    line: '{"jsonrpc":"2.0","id":[4],"method":"ping"}',
    errors: [[null, -32_600]],
  },
  {
    name: "params that are a text",
    line: '{"jsonrpc":"2.0","id":4,"method":"ping","params":"x"}',
    errors: [[4, -32_600]],
  },
  {
    name: "a batch where there are none",
    line: '[{"jsonrpc":"2.0","id":4,"method":"ping"}]',
    errors: [[4, -32_600]],
  },
  { name: "an empty batch", line: "[]", errors: [[null, -32_600]] },
  {
    name: "too many levels",
    line: `{"jsonrpc":"2.0","id":4,"method":"ping","params":${'{"a":'.repeat(100)}1${"}".repeat(101)}`,
    errors: [[4, -32_600]],
  },
  {
    name: "too many values",
    line: `{"method":"ping","params":{"id":9,"a":[${"0,".repeat(40_000)}0]},"id":"b","jsonrpc":"2.0"}`,
    errors: [["b", -32_600]],
  },
  { name: "a faulty reply", line: '{"jsonrpc":"2.0","id":4,"result":1}', errors: [] },
  { name: "blank lines", line: "\r\n\n \t", errors: [] },
])("$name is answered, and the session goes on", async ({ line, errors }) => {
  await using connection = await open();
  connection.stdin.write(`${line}\n`);
  expect(await isAlive(connection)).toBe(true);
  expect(errorsOf(connection)).toEqual(errors);
});

test("a line that is not in UTF-8 is refused with its id", async () => {
  await using connection = await open();
  const line = '{"jsonrpc":"2.0","id":4,"method":"ping","params":{"_meta":{"a":"ö"}}}\n';
  connection.stdin.write(Buffer.from(line, "latin1"));
  expect(await isAlive(connection)).toBe(true);
  expect(errorsOf(connection)).toEqual([[4, -32_600]]);
});

test("a byte order mark and a carriage return are ignored", async () => {
  await using connection = connect();
  connection.stdin.write(`\uFEFF${JSON.stringify({ jsonrpc: "2.0", ...INITIALIZE })}\r\n`);
  expect(await connection.answer(1)).toHaveProperty("result");
});

test.for([
  {
    name: "at its start",
    head: '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"',
    tail: '"}}',
  },
  {
    name: "at its end",
    head: '{"method":"ping","params":{"id":1,"a":"\\"}',
    tail: '"},"jsonrpc":"2.0","id":7}',
  },
])(
  "a message above the limit with its id $name is answered and skipped",
  async ({ head, tail }) => {
    await using connection = await open();
    connection.stdin.write(head);
    for (let part = 0; part < 17; part += 1) connection.stdin.write("x".repeat(MEBIBYTE));
    connection.stdin.write(`${tail}\n`);
    expect(await isAlive(connection)).toBe(true);
    expect(errorsOf(connection)).toEqual([[7, -32_600]]);
  },
);

test("a message just below the limit is taken", async () => {
  await using connection = await open();
  const params = { _meta: { padding: "x".repeat(15 * MEBIBYTE) } };
  connection.send({ id: 2, method: "ping", params });
  expect(await connection.answer(2)).toHaveProperty("result");
});

test("a message without an end does not fill the memory", async () => {
  await using connection = await open();
  const part = Buffer.alloc(MEBIBYTE, "x");
  const before = process.memoryUsage().arrayBuffers;
  for (let count = 0; count < 160; count += 1) {
    if (connection.stdin.write(part)) continue;
    await new Promise((resolve) => connection.stdin.once("drain", resolve));
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(96 * MEBIBYTE);
  connection.stdin.write("\n");
  expect(await isAlive(connection)).toBe(true);
});

test("where the revision has batches, the replies to one come together", async () => {
  await using connection = await open("2025-03-26");
  const batch = [
    request(2, "ping"),
    { jsonrpc: "2.0", method: "notifications/initialized" },
    request(3, "no_such"),
    { ...request(4, "initialize"), params: INITIALIZE.params },
    { id: 5 },
  ];
  connection.stdin.write(`${JSON.stringify(batch)}\n`);
  await expect.poll(() => connection.batches.length).toBe(1);
  const [replies = []] = connection.batches;
  expect(replies.toSorted((left, right) => Number(left["id"]) - Number(right["id"]))).toEqual([
    { jsonrpc: "2.0", id: 2, result: {} },
    { jsonrpc: "2.0", id: 3, error: expect.objectContaining({ code: -32_601 }) },
    { jsonrpc: "2.0", id: 4, error: expect.objectContaining({ code: -32_600 }) },
    { jsonrpc: "2.0", id: 5, error: expect.objectContaining({ code: -32_600 }) },
  ]);
  connection.stdin.write("[]\n");
  connection.stdin.write('[{"jsonrpc":"2.0","method":"notifications/initialized"}]\n');
  expect(await isAlive(connection)).toBe(true);
  expect(errorsOf(connection)).toEqual([[null, -32_600]]);
});

test("of a batch whose request was cancelled the other replies come", async () => {
  await using connection = await open("2025-03-26");
  const call = { name: "create_sandbox", arguments: {} };
  const batch = [
    { jsonrpc: "2.0", id: 2, method: "tools/call", params: call },
    { jsonrpc: "2.0", id: 3, method: "ping" },
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } },
  ];
  connection.stdin.write(`${JSON.stringify(batch)}\n`);
  await expect.poll(() => connection.batches).toEqual([[{ jsonrpc: "2.0", id: 3, result: {} }]]);
});

test.for(["a hundred malformed messages", "five hundred by chance"])(
  "%s: an answer for each id, and the session goes on",
  async (name) => {
    await using connection = await open();
    const isListed = name === "a hundred malformed messages";
    const lines = isListed
      ? malformedMessages()
      : randomMessages(createRandom(printedSeed("messages on stdio")), RANDOM_MESSAGES);
    expect(lines.length).toBeGreaterThanOrEqual(100);
    for (const { line } of lines) connection.stdin.write(`${line}\n`);
    expect(await isAlive(connection)).toBe(true);
    const silent = () => {
      const answered = new Set(connection.messages.map(({ id }) => id));
      return lines.filter(({ id }) => id !== undefined && !answered.has(id));
    };
    await expect.poll(silent, { timeout: 10_000 }).toEqual([]);
    expect(connection.messages.every((message) => message["jsonrpc"] === "2.0")).toBe(true);
  },
);

test("many faulty lines in one piece wait for the host once", async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const ignore = vi.fn<() => void>();
  const events = { onHeard: ignore, onSent: ignore, onClosed: ignore };
  const transport = new StdioTransport({ stdin, stdout, ...events });
  await transport.start();
  stdin.write("x\n".repeat(5_000));
  await expect.poll(() => stdout.writableNeedDrain).toBe(true);
  expect([stdout.listenerCount("drain"), stdin.isPaused()]).toEqual([1, true]);
  stdout.resume();
  await expect.poll(() => stdin.isPaused()).toBe(false);
  await transport.close();
});

test("a host that takes no replies is not read from, and gets all of them later", async () => {
  const requests = 400;
  await using connection = await open();
  const { stdin, stdout } = connection;
  stdout.pause();
  const unsent = () => stdout.writableLength + stdout.readableLength;
  for (let id = 100; id < 100 + requests; id += 1) {
    connection.send({ id, method: "tools/list" });
    const { promise: answered, resolve } = Promise.withResolvers<void>();
    setImmediate(resolve);
    await answered;
  }
  await expect.poll(() => stdin.isPaused()).toBe(true);
  expect([unsent() < 12 * MEBIBYTE, stdin.readableLength > 0]).toEqual([true, true]);
  const before = connection.messages.length;
  stdout.resume();
  await expect.poll(() => connection.messages.length - before).toBe(requests);
  expect(stdin.isPaused()).toBe(false);
});

test("with too many requests open no further one is read until one is answered or cancelled", async () => {
  const limit = 1_024;
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const ignore = vi.fn<() => void>();
  const events = { onHeard: ignore, onSent: ignore, onClosed: ignore };
  const transport = new StdioTransport({ stdin, stdout, ...events });
  const delivered: unknown[] = [];
  // The SDK sets this field and knows no listeners.
  // oxlint-disable-next-line unicorn/prefer-add-event-listener
  transport.onmessage = (message) => delivered.push("id" in message ? message.id : "none");
  await transport.start();
  stdout.resume();
  const ids = Array.from({ length: limit + 2 }, (_, id) => id);
  // Each in a piece of its own.
  for (const id of ids) {
    stdin.write(`${JSON.stringify(request(id, "ping"))}\n`);
    await new Promise(setImmediate);
  }
  expect([delivered.length, stdin.isPaused()]).toEqual([limit, true]);
  await transport.send({ jsonrpc: "2.0", id: 7, result: {} });
  await expect.poll(() => delivered).toEqual(ids.slice(0, limit + 1));
  expect(stdin.isPaused()).toBe(true);
  await transport.send({ jsonrpc: "2.0", id: 8, error: { code: -1, message: "no" } });
  await expect.poll(() => delivered).toEqual(ids);
  const params = { requestId: 9 };
  await transport.send({ jsonrpc: "2.0", id: 10, result: {} });
  stdin.write(
    `${JSON.stringify({ ...request(0, "notifications/cancelled"), id: undefined, params })}\n`,
  );
  stdin.write(`${JSON.stringify(request(limit + 2, "ping"))}\n`);
  stdin.write(`${JSON.stringify(request(limit + 3, "ping"))}\n`);
  await expect.poll(() => delivered.slice(limit + 2)).toEqual(["none", limit + 2, limit + 3]);
  await transport.close();
});
