/** Faulty messages over HTTP: each request gets an answer with its id, and the session goes on. */

import { expect, test } from "vitest";
import { randomMessages } from "../../support/malformed-random.ts";
import { malformedMessages } from "../../support/malformed.ts";
import { startEndpoint } from "../../support/mcp-endpoint.ts";
import { createRandom, printedSeed } from "../../support/random.ts";
import { INITIALIZE } from "../../support/stdio-connection.ts";

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
