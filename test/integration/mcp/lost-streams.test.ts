/** Streamable HTTP over a network that breaks: a host asks for what it missed. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startEndpoint } from "../../support/mcp/mcp-endpoint.ts";
import { INITIALIZE } from "../../support/mcp/stdio-connection.ts";
import { toReply } from "../../support/mcp/tool-reply.ts";

const MINUTE_MS = 60_000;
/** In which the end of a stream that a host has dropped arrives. */
const DROP_MS = 2_000;
const HEADERS = { authorization: "Bearer key-alice" };

test("a host whose connection breaks during a call gets its reply", async () => {
  await using endpoint = await startEndpoint();
  const sandboxId = await endpoint.world.createSandbox();
  const client = new Client({ name: "http-host", version: "1.0.0" });
  const broken = new AbortController();
  const seen: string[] = [];
  let hasBegun = false;
  /** Ends the body of the first stream of a call once it has begun; later ones are whole. */
  async function fetchOnce(url: string | URL, init?: RequestInit): Promise<Response> {
    const { body } = init ?? {};
    const isCall = typeof body === "string" && body.includes('"tools/call"');
    seen.push(`${init?.method} ${new Headers(init?.headers).get("last-event-id") ?? ""}`);
    if (!isCall) return fetch(url, init);
    const reply = await fetch(url, { ...init, signal: broken.signal });
    hasBegun = true;
    return reply;
  }
  const options = { requestInit: { headers: HEADERS }, fetch: fetchOnce };
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint.url), options));
  const input = { sandbox_id: sandboxId, cmd: "sh", args: ["-c", "sleep 1; echo over"] };
  const calling = client.callTool({ name: "run_process", arguments: input });
  await expect.poll(() => hasBegun).toBe(true);
  // Its first event is read, the reply is not there.
  await new Promise((resolve) => setTimeout(resolve, 300));
  broken.abort();
  const { text } = toReply(await calling);
  expect(text).toContain("exit_code: 0");
  expect(text).toContain("over");
  expect(seen.at(-1)).toMatch(/^GET [0-9]+:[0-9a-f-]+$/);
  await client.close();
});

test("an event that this session did not send is answered by an empty stream", async () => {
  await using endpoint = await startEndpoint();
  const client = new Client({ name: "http-host", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL(endpoint.url), {
    requestInit: { headers: HEADERS },
  });
  await client.connect(transport);
  const session = { ...HEADERS, "mcp-session-id": transport.sessionId ?? "" };
  const ask = async (id: string) => {
    const headers = { ...session, accept: "text/event-stream", "last-event-id": id };
    const reply = await fetch(endpoint.url, { headers });
    return [reply.status, await reply.text()];
  };
  expect([await ask("1:unknown"), await ask("none")]).toEqual([
    [200, ""],
    [200, ""],
  ]);
  await client.close();
});

test("a host that lost its network listens again, and the stream before it ends", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const session = await openSession(endpoint);
  const headers = { ...HEADERS, ...session, accept: "text/event-stream" };
  const listen = async () => fetch(endpoint.url, { headers });
  const refusal = async () => {
    const asked = listen();
    await expect.poll(() => clock.isAwaited(DROP_MS)).toBe(true);
    await clock.advance(DROP_MS);
    return (await asked).status;
  };
  const lost = await listen();
  await clock.advance(MINUTE_MS - DROP_MS - 1);
  expect([lost.status, await refusal()]).toEqual([200, 409]);
  await clock.advance(1);
  const heard = await listen();
  expect([heard.status, await refusal()]).toEqual([200, 409]);
  await expect(lost.text()).rejects.toThrow("terminated");
  const text = readSoFar(heard);
  await (await endpoint.post(CREATE, session)).text();
  await hearsOfChange(clock, text);
});

test("a host that opens its stream again at once waits for the end of the one before", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const session = await openSession(endpoint);
  const headers = { ...HEADERS, ...session, accept: "text/event-stream" };
  const dropped = new AbortController();
  await fetch(endpoint.url, { headers, signal: dropped.signal });
  const asked = fetch(endpoint.url, { headers });
  await expect.poll(() => clock.isAwaited(DROP_MS)).toBe(true);
  // Two that wait would be two hosts of one session.
  expect((await fetch(endpoint.url, { headers })).status).toBe(409);
  dropped.abort();
  const heard = await asked;
  expect(heard.status).toBe(200);
  const text = readSoFar(heard);
  await (await endpoint.post(CREATE, session)).text();
  await hearsOfChange(clock, text);
});

test("a stream that is dropped while it waits for another leaves the place to the next", async () => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const session = await openSession(endpoint);
  const headers = { ...HEADERS, ...session, accept: "text/event-stream" };
  const [first, second] = [new AbortController(), new AbortController()];
  await fetch(endpoint.url, { headers, signal: first.signal });
  const asked = fetch(endpoint.url, { headers, signal: second.signal });
  await expect.poll(() => clock.isAwaited(DROP_MS)).toBe(true);
  second.abort();
  await expect(asked).rejects.toThrow("aborted");
  await expect.poll(() => clock.isAwaited(DROP_MS)).toBe(false);
  first.abort();
  const last = fetch(endpoint.url, { headers });
  expect((await last).status).toBe(200);
});

test.for([
  { what: "takes no events", status: 406, more: { accept: "application/json" } },
  { what: "has another version", status: 400, more: { "mcp-protocol-version": "1999-01-01" } },
])("a request that $what is refused, and ends no stream", async ({ status, more }) => {
  const clock = createFakeClock();
  await using endpoint = await startEndpoint(clock);
  const session = await openSession(endpoint);
  const headers = { ...HEADERS, ...session, accept: "text/event-stream" };
  const text = readSoFar(await fetch(endpoint.url, { headers }));
  await clock.advance(MINUTE_MS);
  const refused = await fetch(endpoint.url, { headers: { ...headers, ...more } });
  expect(refused.status).toBe(status);
  await (await endpoint.post(CREATE, session)).text();
  await hearsOfChange(clock, text);
});

const CREATE = {
  jsonrpc: "2.0",
  id: 2,
  method: "tools/call",
  params: { name: "create_sandbox", arguments: {} },
};

type Endpoint = Awaited<ReturnType<typeof startEndpoint>>;

/** The header of a new session. */
async function openSession(endpoint: Endpoint): Promise<{ readonly "mcp-session-id": string }> {
  const opened = await endpoint.post({ jsonrpc: "2.0", ...INITIALIZE });
  await opened.text();
  return { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" };
}

async function hearsOfChange(
  clock: ReturnType<typeof createFakeClock>,
  text: () => string,
): Promise<void> {
  const later = async () => {
    await clock.advance(1_000);
    return text();
  };
  await expect.poll(later).toContain("notifications/resources/list_changed");
}

/** What has arrived of a body that goes on. */
function readSoFar({ body }: Response): () => string {
  let text = "";
  const sink = new WritableStream<string>({ write: (piece) => void (text += piece) });
  // It breaks at the end of the endpoint.
  body
    ?.pipeThrough(new TextDecoderStream())
    .pipeTo(sink)
    .catch(() => undefined);
  return () => text;
}
