/** What the client sends to the daemon of a sandbox, and what it makes of each answer. */

import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import {
  answerJson,
  startRecorder,
  type RecordedRequest,
  type Recorder,
} from "../../support/network/recorder.ts";

const { signal } = new AbortController();

type DaemonAnswer = (request: RecordedRequest, response: ServerResponse) => void;

/** A service whose tokens count up, with a daemon that answers as it is told. */
async function startSandbox(daemon: DaemonAnswer, tokens: readonly string[] = ["token-1"]) {
  const left = [...tokens];
  let lastToken = "";
  const recorder = await startRecorder((request, response) => {
    if (!request.url.startsWith("/sandboxes/")) return daemon(request, response);
    lastToken = left.shift() ?? lastToken;
    return answerJson(response, 200, { body: { ...SANDBOX_DETAIL, envdAccessToken: lastToken } });
  });
  const service = createService({
    url: recorder.url,
    sandboxUrl: `${recorder.url}/`,
    domain: "e2b.app",
    apiKey: "secret-key",
  });
  const sandbox = await service.attach("i1-6532622b", signal);
  return {
    recorder,
    service,
    sandbox,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

function toDaemon(recorder: Recorder): readonly RecordedRequest[] {
  return recorder.requests.filter(({ url }) => !url.startsWith("/sandboxes/"));
}

const ENTRY = {
  entry: { name: "a", path: "/a", type: "FILE_TYPE_FILE", size: "5", mode: 420, newField: 1 },
};

test("a call names sandbox, port, token and user, and never the key", async () => {
  await using world = await startSandbox((_, response) =>
    answerJson(response, 200, { body: ENTRY }),
  );
  const entry = await world.sandbox.filesystem.stat("/a", { signal, user: "root" });
  expect(entry).toMatchObject({ path: "/a", type: "file", sizeBytes: 5, mode: 420 });
  const [request] = toDaemon(world.recorder);
  expect([request?.method, request?.url, JSON.parse(request?.body ?? "")]).toEqual([
    "POST",
    "/filesystem.Filesystem/Stat",
    { path: "/a" },
  ]);
  expect(request?.headers).toMatchObject({
    "e2b-sandbox-id": "i1",
    "e2b-sandbox-port": "49983",
    "x-access-token": "token-1",
    authorization: "Basic cm9vdDo=",
    "connect-protocol-version": "1",
    "content-type": "application/json",
  });
  expect(request?.headers["x-api-key"]).toBeUndefined();
});

test("a refused token is renewed once, and the call repeated with the new one", async () => {
  await using world = await startSandbox(
    (request, response) => {
      if (request.headers["x-access-token"] === "token-2") {
        answerJson(response, 200, { body: ENTRY });
      } else answerJson(response, 401, { body: { code: 401, message: "unauthorized" } });
    },
    ["token-1", "token-2"],
  );
  expect((await world.sandbox.filesystem.stat("/a", { signal })).path).toBe("/a");
  const tokens = toDaemon(world.recorder).map(({ headers }) => headers["x-access-token"]);
  expect(tokens).toEqual(["token-1", "token-2"]);
});

test("a token that stands means that the user was refused", async () => {
  await using world = await startSandbox((_, response) =>
    answerJson(response, 401, { body: { code: "unauthenticated", message: "invalid username" } }),
  );
  const { filesystem } = world.sandbox;
  await expect(filesystem.stat("/a", { signal, user: "ghost" })).rejects.toMatchObject({
    code: "invalid_argument",
    message: "no user ghost in i1",
  });
  await expect(filesystem.stat("/a", { signal })).rejects.toMatchObject({
    code: "unauthenticated",
  });
});

test.for([
  { status: 404, body: { code: "not_found", message: "file not found" }, code: "not_found" },
  { status: 502, body: { code: 502, message: "The sandbox was not found" }, code: "unavailable" },
  { status: 409, body: { code: 409, message: "transitioning" }, code: "failed_precondition" },
  { status: 403, body: { code: 403, message: "can't be resumed" }, code: "permission_denied" },
  { status: 429, body: { code: 429, message: "connections" }, code: "resource_exhausted" },
])("an answer of $status with $body.code is $code for a call and a stream", async (row) => {
  await using world = await startSandbox((_, response) =>
    answerJson(response, row.status, { body: row.body }),
  );
  const stat = world.sandbox.filesystem.stat("/a", { signal });
  await expect(stat).rejects.toMatchObject({ code: row.code });
  // A stream's own errors come in its last message; only a gateway answers one with a status.
  if (typeof row.body.code === "string") return;
  const events = world.sandbox.process.connect(1, signal);
  await expect(events.next()).rejects.toMatchObject({ code: row.code });
});

test("a file that a daemon cannot seek in is read compressed, from its start", async () => {
  await using world = await startSandbox((request, response) => {
    if (request.headers["accept-encoding"] === "gzip") {
      response.writeHead(200, { "content-encoding": "gzip", "content-type": "text/plain" });
      response.end(gzipSync("0123456789"));
    } else {
      const message = "error reading file: seeker can't seek";
      answerJson(response, 500, { body: { code: 500, message } });
    }
  });
  const read = await world.sandbox.files.read("/proc/x", { offset: 2, limit: 5 }, { signal });
  expect(read).toEqual({
    bytes: Buffer.from("23456"),
    sizeBytes: undefined,
    contentType: "text/plain",
  });
});

test("a file of bytes that only claim to be compressed is a failure", async () => {
  await using world = await startSandbox((_, response) => {
    response.writeHead(200, { "content-encoding": "gzip" }).end("no gzip");
  });
  const read = world.sandbox.files.read("/a", { offset: 0, limit: 5 }, { signal });
  await expect(read).rejects.toMatchObject({ code: "internal" });
});

/** Messages of a server stream as Connect frames them. */
function frames(...messages: readonly { readonly flags: number; readonly json: object }[]): Buffer {
  return Buffer.concat(
    messages.map(({ flags, json }) => {
      const payload = Buffer.from(JSON.stringify(json));
      const header = Buffer.alloc(5);
      header.writeUInt8(flags, 0);
      header.writeUInt32BE(payload.length, 1);
      return Buffer.concat([header, payload]);
    }),
  );
}

const START = { flags: 0, json: { event: { start: { pid: 7 } } } };
const DATA = { flags: 0, json: { event: { data: { stdout: "aGk=" } } } };
const ALIVE = { flags: 0, json: { event: { keepalive: {} } } };
const END = { flags: 0, json: { event: { end: { exited: true, status: "exit status 0" } } } };
const CLOSE = { flags: 2, json: {} };

function streams(bytes: Buffer): DaemonAnswer {
  return (_, response) => {
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.end(bytes);
  };
}

const REQUEST = { cmd: "/bin/echo", args: ["hi"], env: {}, hasStdin: false };

test("a process stream is told in our words, without keepalives", async () => {
  await using world = await startSandbox(streams(frames(START, ALIVE, DATA, END, CLOSE)));
  const events = world.sandbox.process.start(REQUEST, { signal, timeoutMs: 1_500 });
  const seen: unknown[] = [];
  for await (const event of events) seen.push(event);
  expect(seen).toEqual([
    { type: "start", pid: 7 },
    { type: "data", stream: "stdout", bytes: new Uint8Array([0x68, 0x69]) },
    { type: "end", exitCode: 0, status: "exit status 0" },
  ]);
  const [request] = toDaemon(world.recorder);
  expect(request?.headers).toMatchObject({
    "connect-timeout-ms": "1500",
    "keepalive-ping-interval": "50",
    "content-type": "application/connect+json",
  });
});

test.for([
  { name: "without its end event", bytes: frames(START, CLOSE), code: "unavailable" },
  { name: "without its last message", bytes: frames(START, DATA), code: "unavailable" },
  {
    name: "with an error at its end",
    bytes: frames(START, {
      flags: 2,
      json: { error: { code: "deadline_exceeded", message: "late" } },
    }),
    code: "deadline_exceeded",
  },
])("a process stream $name is $code", async ({ bytes, code }) => {
  await using world = await startSandbox(streams(bytes));
  const events = world.sandbox.process.start(REQUEST, { signal });
  expect(await events.next()).toMatchObject({ value: { type: "start" } });
  const drained = (async () => {
    for await (const _ of events);
  })();
  await expect(drained).rejects.toMatchObject({ code });
});

test("a stream whose connection breaks is unavailable", async () => {
  await using world = await startSandbox((_, response) => {
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.write(frames(START), () => response.destroy());
  });
  const events = world.sandbox.process.start(REQUEST, { signal });
  await events.next();
  await expect(events.next()).rejects.toMatchObject({ code: "unavailable" });
});

test("leaving a stream ends its connection", async () => {
  const closed = Promise.withResolvers<void>();
  await using world = await startSandbox((_, response) => {
    response.once("close", () => closed.resolve());
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.write(frames(START));
  });
  for await (const _ of world.sandbox.process.start(REQUEST, { signal })) break;
  await expect(closed.promise).resolves.toBeUndefined();
});

test("a service that ignores the range is cut here", async () => {
  await using world = await startSandbox((_, response) => {
    response.writeHead(200, { "content-type": "text/plain", "content-length": "10" });
    response.end("0123456789");
  });
  const slice = await world.sandbox.files.read("/a b", { offset: 3, limit: 4 }, { signal });
  expect(slice).toEqual({ bytes: Buffer.from("3456"), sizeBytes: 10, contentType: "text/plain" });
  const [request] = toDaemon(world.recorder);
  expect([request?.url, request?.headers["range"], request?.headers["accept-encoding"]]).toEqual([
    "/files?path=%2Fa+b",
    "bytes=3-6",
    "identity",
  ]);
});

test("a full disk is named", async () => {
  await using world = await startSandbox((_, response) =>
    answerJson(response, 507, { body: { code: 507, message: "not enough disk space available" } }),
  );
  const writing = world.sandbox.files.write("/a", Buffer.from("x"), { signal });
  await expect(writing).rejects.toMatchObject({
    code: "resource_exhausted",
    hint: "The disk of the sandbox is full.",
  });
});

test("a download link carries the signature that the wire asks for", async () => {
  await using world = await startSandbox(() => undefined, ["tok-0123456789abcdef"]);
  const wish = { path: "notes.txt", user: "root", expiration: 1_893_456_000 };
  const url = new URL((await world.service.downloadUrl("i1", wish))?.url ?? "");
  expect([url.origin, url.pathname]).toEqual([world.recorder.url, "/files"]);
  expect(Object.fromEntries(url.searchParams)).toEqual({
    path: "notes.txt",
    username: "root",
    signature: "v1_JkbvEIpyxaHAj2KJqn8+vdiReCONQ/56oPUDQWP6doY",
    signature_expiration: "1893456000",
  });
});

test.for([
  { name: "a shared host", domain: "e2b.app", host: "8080-i1.e2b.app" },
  { name: "an own domain", domain: "box.example", host: "8080-i1.box.example" },
  { name: "no domain", domain: undefined, host: undefined },
])("the host of a port is known with $name", async ({ domain, host }) => {
  await using service = createService({ url: "http://127.0.0.1:9", apiKey: "k", domain });
  expect(service.portHost("i1", 8080)).toBe(host);
});

test.for([
  { domain: "box.example:443", port: "" },
  { domain: "box.example:8443", port: ":8443" },
])("links of a service behind the proxy of $domain lead through it", async ({ domain, port }) => {
  const local = { url: "http://localhost", socketPath: "/nowhere", apiKey: "k" };
  await using service = createService({ ...local, domain });
  const link = await service.downloadUrl("i1", { path: "/a", expiration: 1 });
  expect(link?.url).toBe(`https://49983-i1.box.example${port}/files?path=%2Fa`);
  expect(await service.portAddress("i1", 8080)).toEqual({
    url: `https://8080-i1.box.example${port}`,
    isOfSession: false,
  });
});
