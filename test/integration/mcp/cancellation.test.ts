/** A host that cancels a call says why in its own words; to the server it is a cancellation. */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { pino } from "pino";
import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { serveMcpStdio } from "../../../src/mcp/stdio/stdio.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { connect, INITIALIZE } from "../../support/mcp/stdio-connection.ts";
import { answerJson } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

test("a call that is cancelled with a reason is no fault of the server", async () => {
  // Answers nothing.
  const silent = createServer();
  const port = await listenOnLoopback(silent);
  const service = createService({ url: `http://127.0.0.1:${port}`, apiKey: "none" });
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: "info" }, { write: (line) => void lines.push(JSON.parse(line)) });
  const state = startMcpState({ service: () => service, log, onExit: () => "leave" });
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const stop = new AbortController();
  const ended = serveMcpStdio({
    open: async () => ({ state, tools: TOOLS, version: "0.0.0" }),
    protocol: "auto",
    stdin,
    stdout,
    signal: stop.signal,
    parentPid: () => 1,
  });
  const send = (message: object) =>
    stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  try {
    send(INITIALIZE);
    send({ method: "notifications/initialized" });
    const asked = once(silent, "request");
    send({ id: 2, method: "tools/call", params: { name: "list_sandboxes", arguments: {} } });
    await asked;
    const params = { requestId: 2, reason: "the user stopped it" };
    send({ method: "notifications/cancelled", params });
    await expect.poll(() => lines.find(({ op }) => op === "tool.list_sandboxes")).toBeDefined();
    expect(lines.find(({ op }) => op === "tool.list_sandboxes")).toMatchObject({
      level: pino.levels.values["info"],
      outcome: "canceled",
      code: "canceled",
    });
  } finally {
    stop.abort();
    await ended;
    await state[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
    silent.closeAllConnections();
    silent.close();
  }
});

test.for(["auto", "legacy"] as const)(
  "on stdio (%s) a call that repeats an id right behind its cancellation is answered",
  async (protocol) => {
    await using connection = connect(protocol);
    connection.send(INITIALIZE);
    expect(await connection.answer(1)).toHaveProperty("result");
    const params = { name: "list_sandboxes", arguments: {} };
    const messages = [
      { id: 5, method: "tools/call", params },
      { method: "notifications/cancelled", params: { requestId: 5 } },
      { id: 5, method: "ping" },
      { id: 6, method: "ping" },
    ];
    const lines = messages.map((each) => `${JSON.stringify({ jsonrpc: "2.0", ...each })}\n`);
    // As one piece, as a host that waits for nothing sends them.
    connection.stdin.write(lines.join(""));
    await connection.answer(6);
    await connection.answer(5);
    const replies = connection.messages.filter(({ id }) => id === 5 || id === 6);
    expect(replies).toEqual([5, 6].map((id) => ({ jsonrpc: "2.0", id, result: {} })));
  },
);

test("a process is not started for a call that was cancelled before", async () => {
  await using remote = await startForeignHost((_request, response) =>
    answerJson(response, 500, { body: { code: "internal", message: "no" } }),
  );
  const { service, captures } = remote.state;
  const { signal } = new AbortController();
  const sandbox = await service.attach("i1", signal);
  const start = async (call: AbortSignal) =>
    captures.start(sandbox, {
      label: "true",
      request: { cmd: "true", args: [], env: {}, hasStdin: false },
      user: undefined,
      timeoutMs: undefined,
      signal: call,
    });
  await expect(start(AbortSignal.abort())).rejects.toThrow("the call was cancelled");
  await expect(start(signal)).rejects.toThrow("start process");
  const started = remote.recorder.requests.filter(({ url }) => url.endsWith("/Start"));
  expect(started).toHaveLength(1);
});

test.for([
  { name: "at once", lateMs: 0 },
  { name: "after a minute", lateMs: 60_000 },
])(
  "a process whose start is answered $name is ended, and its stream closed, for a cancelled call",
  async ({ lateMs }) => {
    const { promise: asked, resolve: ask } = Promise.withResolvers<ServerResponse>();
    const clock = createFakeClock();
    await using remote = await startForeignHost(({ url }, response) => {
      if (url.endsWith("/Start")) ask(response);
      else answerJson(response, 200, { body: {} });
    }, clock);
    const cancelling = new AbortController();
    const { signal } = cancelling;
    const running = remote.call("run_process", { cmd: "sleep 60" }, { signal });
    const response = await asked;
    const closed = once(response, "close");
    cancelling.abort();
    await expect(running).rejects.toThrow("abort");
    await clock.advance(lateMs);
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.write(envelope('{"event":{"start":{"pid":7}}}'));
    const signals = () => remote.recorder.requests.filter(({ url }) => url.endsWith("/SendSignal"));
    await expect
      .poll(() => signals().map(({ body }) => JSON.parse(body)))
      .toEqual([{ process: { pid: 7 }, signal: "SIGNAL_SIGKILL" }]);
    await closed;
  },
);

test("a detached process goes on and is watched, however late its start is answered", async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<ServerResponse>();
  await using remote = await startForeignHost(({ url }, response) => {
    if (url.endsWith("/Start")) ask(response);
    else answerJson(response, 200, { body: {} });
  });
  const cancelling = new AbortController();
  const { signal } = cancelling;
  const input = { cmd: "cat", detach: true, stdin: "in" };
  const running = remote.call("run_process", input, { signal });
  const response = await asked;
  cancelling.abort();
  await expect(running).rejects.toThrow("abort");
  response.writeHead(200, { "content-type": "application/connect+json" });
  response.write(envelope('{"event":{"start":{"pid":7}}}'));
  const { captures } = remote.state;
  await expect.poll(() => captures.find("i1", 7)?.state).toEqual({ kind: "running" });
  const called = () => remote.recorder.requests.map(({ url }) => url.split("/").at(-1));
  await expect.poll(called).toContain("StreamInput");
  response.write(envelope('{"event":{"end":{"exited":true,"status":"exit status 0"}}}'));
  await expect.poll(() => captures.find("i1", 7)?.state.kind).toBe("ended");
  expect(called()).not.toContain("SendSignal");
});

test("the copies of a fork that was cancelled are ended when its service has made them", async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<ServerResponse>();
  await using remote = await startForeignHost(({ url }, response) => {
    if (url.endsWith("/fork")) ask(response);
    else answerJson(response, 200, { body: {} });
  });
  const cancelling = new AbortController();
  const forking = remote.call("fork_sandbox", { count: 3 }, { signal: cancelling.signal });
  const response = await asked;
  cancelling.abort();
  await expect(forking).rejects.toThrow("abort");
  const copies = ["i2", "i3"].map((sandboxID) => ({ sandbox: { ...SANDBOX_DETAIL, sandboxID } }));
  const failed = { error: { code: 429, message: "no place" } };
  answerJson(response, 201, { body: [...copies, failed] });
  const ended = () =>
    remote.recorder.requests.filter(({ method }) => method === "DELETE").map(({ url }) => url);
  await expect.poll(() => ended().toSorted()).toEqual(["/sandboxes/i2", "/sandboxes/i3"]);
});

/** A snapshot call that is cancelled before its service answers it; then the answer comes. */
async function cancelSnapshot(remote: CancelWorld, input: object) {
  const cancelling = new AbortController();
  const taking = remote.host.call("snapshot", input, { signal: cancelling.signal });
  const response = await remote.asked;
  const closed = once(response, "close");
  cancelling.abort();
  await expect(taking).rejects.toThrow("abort");
  return { response, closed };
}

interface CancelWorld extends AsyncDisposable {
  readonly host: Awaited<ReturnType<typeof startForeignHost>>;
  /** The reply to the request for a snapshot. */
  readonly asked: Promise<ServerResponse>;
}

/** @param removals what the first requests to delete are answered; the later ones succeed. */
async function startCancelWorld(
  removals: number[] = [],
  clock?: ReturnType<typeof createFakeClock>,
): Promise<CancelWorld> {
  const { promise: asked, resolve: ask } = Promise.withResolvers<ServerResponse>();
  const host = await startForeignHost(({ method, url }, response) => {
    if (url.endsWith("/snapshots")) return ask(response);
    const status = (method === "DELETE" ? removals.shift() : undefined) ?? 200;
    return answerJson(response, status, { body: { code: status, message: "no" } });
  }, clock);
  return { host, asked, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

test("an unnamed snapshot that was cancelled is deleted when its service has taken it", async () => {
  await using remote = await startCancelWorld();
  const { response } = await cancelSnapshot(remote, {});
  answerJson(response, 201, { body: { snapshotID: "abc:default", names: [] } });
  const { requests } = remote.host.recorder;
  const deleted = () => requests.filter(({ method }) => method === "DELETE").map(({ url }) => url);
  await expect.poll(deleted).toEqual(["/templates/abc%3Adefault"]);
});

test("a snapshot that cannot be deleted at first is deleted later", async () => {
  const clock = createFakeClock();
  await using remote = await startCancelWorld([500, 400], clock);
  const { response } = await cancelSnapshot(remote, {});
  answerJson(response, 201, { body: { snapshotID: "abc:default", names: [] } });
  const { requests } = remote.host.recorder;
  const deletes = () => requests.filter(({ method }) => method === "DELETE").length;
  await expect.poll(deletes).toBe(1);
  await expect.poll(async () => clock.advance(1_000).then(deletes)).toBe(3);
  await clock.advance(600_000);
  expect(deletes()).toBe(3);
});

test("the request for a named snapshot ends with its call: other versions have the name", async () => {
  await using remote = await startCancelWorld();
  const { closed } = await cancelSnapshot(remote, { name: "kept" });
  await closed;
  expect(remote.host.recorder.requests.filter(({ method }) => method === "DELETE")).toEqual([]);
});
