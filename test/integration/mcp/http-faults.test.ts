/** Faulty messages over HTTP: each request gets an answer with its id, and the session goes on. */

import { expect, test } from "vitest";
import { malformedMessages } from "../../support/malformed.ts";
import { startEndpoint } from "../../support/mcp-endpoint.ts";
import { INITIALIZE } from "../../support/stdio-connection.ts";

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

test("a hundred malformed bodies: an answer for each id, and the session goes on", async () => {
  await using endpoint = await startEndpoint();
  const headers = await open(endpoint);
  for (const { line, id } of malformedMessages()) {
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
});
