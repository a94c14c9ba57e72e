/** Who may call a real daemon: tokens, signatures, users, origins, and what only its host may. */

import assert from "node:assert";
import { mkdir, writeFile } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { Filesystem } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { signFile } from "../../../src/wire/signature.ts";
import { startTestDaemon, type HttpReply } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";

const TOKEN = "tok-0123456789abcdef";
const JSON_CALL = { "content-type": "application/json", "connect-protocol-version": "1" };
const REFUSED = {
  code: 401,
  message:
    "unauthorized access, please provide a valid access token or method signing if supported",
};

function fileUrl(fields: Record<string, string>): string {
  return `/files?${new URLSearchParams(fields).toString()}`;
}

function message(reply: HttpReply): [number, string] {
  const body: { message: string } = JSON.parse(reply.text);
  return [reply.status, body.message];
}

test("a secured daemon refuses whoever has no token, on every route but the exempt ones", async () => {
  await using daemon = await startTestDaemon({ init: { accessToken: TOKEN } });
  const rpc = { method: "POST", headers: JSON_CALL, body: "{}" };
  const stream = {
    method: "POST",
    headers: { ...JSON_CALL, "content-type": "application/connect+json" },
  };
  for (const [path, request] of [
    ["/process.Process/List", rpc],
    ["/filesystem.Filesystem/Stat", rpc],
    ["/process.Process/Start", stream],
    ["/files/compose", { method: "POST", body: "{}" }],
    ["/metrics", {}],
    ["/envs", {}],
    ["/nothing", {}],
    ["/init", { method: "POST", body: "{}" }],
  ] as const) {
    const reply = await daemon.http(path, request);
    expect([path, reply.status, JSON.parse(reply.text)]).toEqual([path, 401, REFUSED]);
  }
  expect((await daemon.http("/health")).status).toBe(204);
  const own = { ...rpc, headers: { ...JSON_CALL, "x-access-token": TOKEN } };
  expect((await daemon.http("/process.Process/List", own)).status).toBe(200);
  const wrong = { ...rpc, headers: { ...JSON_CALL, "x-access-token": `${TOKEN}x` } };
  expect((await daemon.http("/process.Process/List", wrong)).status).toBe(401);
});

test("a file is open to its signature, for as long as that says", async () => {
  await using daemon = await startTestDaemon({ init: { accessToken: TOKEN } });
  const path = join(daemon.folder, "a b.txt");
  await writeFile(path, "content");
  const now = Math.floor(Date.now() / 1000);
  const sign = (fields: Partial<Parameters<typeof signFile>[0]> = {}, token = TOKEN) =>
    signFile({ path, operation: "read", username: "", ...fields }, token);
  const get = async (fields: Record<string, string>, headers: Record<string, string> = {}) => {
    const reply = await daemon.http(fileUrl({ path, ...fields }), { headers });
    return reply.status === 200 ? reply.text : message(reply);
  };
  const head = await daemon.http(fileUrl({ path, signature: sign() }), { method: "HEAD" });
  expect([head.status, head.headers["content-length"]]).toEqual([200, "7"]);
  const late = { signature_expiration: String(now - 5) };
  const soon = { signature_expiration: String(now + 60) };
  expect([
    await get({ signature: sign() }),
    await get({ signature: sign({ expiration: now + 60 }), ...soon }),
    await get({}, { "x-access-token": TOKEN }),
    await get({ signature: sign() }, { "x-access-token": "wrong" }),
    await get({}),
    await get({ signature: sign({ operation: "write" }) }),
    await get({ signature: sign({}, "other") }),
    await get({ signature: sign({ username: "root" }), username: "root" }),
    await get({ signature: sign({ expiration: now - 5 }), ...late }),
    await get({ signature: sign(), ...late }),
    await get({ signature: sign({ path: `${path}:read:x` }), username: "x:read:" }),
  ]).toEqual([
    "content",
    "content",
    "content",
    [401, "access token present in header but does not match"],
    [401, "missing signature query parameter"],
    [401, "invalid signature"],
    [401, "invalid signature"],
    "content",
    [401, "signature is already expired"],
    [401, "invalid signature"],
    [401, "invalid signature"],
  ]);
  const odd = await daemon.http(fileUrl({ path, signature: sign(), signature_expiration: "1e9" }));
  expect([odd.status, odd.headers["content-type"]]).toEqual([400, "text/plain; charset=utf-8"]);
  const upload = {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: "new",
  };
  const signed = { path, signature: sign({ operation: "write" }) };
  expect((await daemon.http(fileUrl(signed), upload)).status).toBe(200);
  const both = { ...upload, headers: { ...upload.headers, "x-access-token": TOKEN } };
  expect((await daemon.http(fileUrl(signed), both)).status).toBe(200);
  expect((await daemon.http(fileUrl({ path, signature: sign() }), upload)).status).toBe(401);
});

test("an unknown user is refused before anything else happens", async () => {
  await using daemon = await startTestDaemon();
  const authorization = `Basic ${Buffer.from("nobody-here:").toString("base64")}`;
  const health = await daemon.http("/health", { headers: { authorization } });
  expect([health.status, JSON.parse(health.text)]).toEqual([
    401,
    { code: "unauthenticated", message: "invalid username: 'nobody-here'" },
  ]);
  const files = createClient(Filesystem, daemon.transport({ headers: { authorization } }));
  const watch = async () => {
    for await (const _ of files.watchDir({ path: "/" })) continue;
  };
  expect([await faultOf(files.stat({ path: "/" })), await faultOf(watch())]).toEqual([
    ["Unauthenticated", "invalid username: 'nobody-here'"],
    ["Unauthenticated", "invalid username: 'nobody-here'"],
  ]);
});

test("a default user that does not exist is told as such", async () => {
  await using daemon = await startTestDaemon({ init: { defaultUser: "nobody-here" } });
  const stat = await daemon.http("/filesystem.Filesystem/Stat", {
    method: "POST",
    headers: JSON_CALL,
    body: '{"path":"/"}',
  });
  expect([stat.status, JSON.parse(stat.text)]).toEqual([
    401,
    { code: "unauthenticated", message: "invalid default user: 'nobody-here'" },
  ]);
});

test("pages of any origin may call, without credentials", async () => {
  await using daemon = await startTestDaemon({ init: { accessToken: TOKEN } });
  const preflight = await daemon.http("/process.Process/List", {
    method: "OPTIONS",
    headers: {
      origin: "http://page.test",
      "access-control-request-method": "POST",
      "access-control-request-headers": "x-access-token, content-type",
    },
  });
  const cors = Object.entries(preflight.headers).filter(([name]) => name.startsWith("access-"));
  expect([preflight.status, Object.fromEntries(cors)]).toEqual([
    204,
    {
      "access-control-allow-headers": "x-access-token, content-type",
      "access-control-allow-methods": "HEAD, GET, POST, PUT, PATCH, DELETE",
      "access-control-allow-origin": "*",
      "access-control-max-age": "7200",
    },
  ]);
  const plain = await daemon.http("/health", { headers: { origin: "http://page.test" } });
  expect(plain.headers["access-control-allow-origin"]).toBe("*");
  expect((await daemon.http("/health")).headers["access-control-allow-origin"]).toBeUndefined();
});

test("paths and methods that are none", async () => {
  await using daemon = await startTestDaemon();
  const probe = async (method: string, path: string) => {
    const reply = await daemon.http(path, { method });
    return [reply.status, reply.headers.allow, reply.text];
  };
  expect([
    await probe("GET", "/nothing"),
    await probe("GET", "/files/"),
    await probe("POST", "/init"),
    await probe("GET", "/logs"),
    await probe("GET", "/tunnel/80"),
    await probe("GET", "/toString"),
    await probe("DELETE", "/files"),
    await probe("POST", "/health"),
    await probe("GET", "/process.Process/List"),
  ]).toEqual([
    [404, undefined, "404 page not found\n"],
    [404, undefined, "404 page not found\n"],
    [404, undefined, "404 page not found\n"],
    [404, undefined, "404 page not found\n"],
    [404, undefined, "404 page not found\n"],
    [404, undefined, "404 page not found\n"],
    [405, undefined, ""],
    [405, undefined, ""],
    [405, "POST", ""],
  ]);
});

test("clients wait until the host has spoken", async () => {
  await using daemon = await startTestDaemon({ init: null });
  expect((await daemon.control("/health")).status).toBe(204);
  let isAnswered = false;
  const early = daemon.http("/health").then((reply) => {
    isAnswered = true;
    return reply.status;
  });
  expect((await daemon.control("/health")).status).toBe(204);
  expect(isAnswered).toBe(false);
  const bad = await daemon.control("/init", { method: "POST", body: '{"accessToken":""}' });
  expect([bad.status, isAnswered]).toEqual([400, false]);
  const first = await daemon.control("/init", { method: "POST" });
  expect([first.status, first.headers["x-envd-version"], await early]).toEqual([
    204,
    "0.6.13",
    204,
  ]);
});

test("a later word of the host counts, an older one does not", async () => {
  await using daemon = await startTestDaemon({
    init: { accessToken: "one", envVars: { A: "1" }, timestamp: "2026-01-02T00:00:00Z" },
  });
  const envs = async (token: string) => {
    const reply = await daemon.http("/envs", { headers: { "x-access-token": token } });
    return reply.status === 200 ? JSON.parse(reply.text) : reply.status;
  };
  const init = async (body: object) =>
    (await daemon.control("/init", { method: "POST", body: JSON.stringify(body) })).status;
  expect(await envs("one")).toEqual({ A: "1" });
  const older = { accessToken: "two", timestamp: "2026-01-01T00:00:00Z" };
  expect([await init(older), await envs("two")]).toEqual([204, 401]);
  const newer = { accessToken: "two", envVars: { B: "2" }, timestamp: "2026-01-03T00:00:00+00:00" };
  expect([await init(newer), await envs("one"), await envs("two")]).toEqual([204, 401, { B: "2" }]);
  expect([await init({}), await envs("")]).toEqual([204, { B: "2" }]);
  await mkdir(join(daemon.folder, "wd"));
  await init({ defaultWorkdir: join(daemon.folder, "wd") });
  expect((await daemon.files.stat({ path: "" })).entry?.name).toBe("wd");
});

test("a work directory that is not there is made, for the default user", async () => {
  await using daemon = await startTestDaemon();
  const init = async (defaultWorkdir: string) => {
    const body = JSON.stringify({ defaultUser: userInfo().username, defaultWorkdir });
    return (await daemon.control("/init", { method: "POST", body })).status;
  };
  expect(await init(join(daemon.folder, "not/yet"))).toBe(204);
  const { entry } = await daemon.files.stat({ path: "" });
  expect(entry).toMatchObject({ name: "yet", owner: userInfo().username, mode: 0o755 });
  // One that can be none stays away, and what needs it is refused.
  expect(await init("/dev/null/inner")).toBe(204);
  await expect(daemon.files.stat({ path: "" })).rejects.toThrow(/not/);
});

/** Sends an upgrade for a port on a connection of its own. */
async function openTunnel(socketPath: string, port: number | string) {
  const socket: Socket = connect(socketPath);
  socket.write(
    `GET /tunnel/${port} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nhello`,
  );
  let received = "";
  socket.on("data", (chunk: Buffer) => {
    received += chunk.toString();
  });
  return { socket, received: () => received };
}

test.for(["127.0.0.1", "::1"])("a tunnel carries bytes to a server on %s", async (host) => {
  await using daemon = await startTestDaemon();
  const server = createServer({ allowHalfOpen: true }, (peer) => {
    peer.on("data", (chunk: Buffer) => peer.write(`<${chunk.toString()}>`));
    peer.on("end", () => peer.end("bye"));
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, host, resolve);
  await promise;
  try {
    const address = server.address();
    assert(address !== null && typeof address === "object");
    const { port } = address;
    const { socket, received } = await openTunnel(daemon.controlSocket, port);
    await expect.poll(received).toMatch(/^HTTP\/1\.1 101 [^]*\r\n\r\n<hello>$/);
    socket.end();
    await expect.poll(received).toMatch(/<hello>bye$/);
    await expect.poll(() => socket.closed).toBe(true);
  } finally {
    server.close();
  }
});

test("a tunnel to nowhere is answered", async () => {
  await using daemon = await startTestDaemon();
  for (const [port, status] of [
    [1, "502 Bad Gateway"],
    [0, "404 Not Found"],
    ["70000", "404 Not Found"],
    ["x", "404 Not Found"],
  ] as const) {
    const { socket, received } = await openTunnel(daemon.controlSocket, port);
    await expect.poll(() => socket.closed).toBe(true);
    expect(received().split("\r\n")[0]).toBe(`HTTP/1.1 ${status}`);
  }
});

test("the host reads the log as it grows; nothing that was printed is in it", async () => {
  await using daemon = await startTestDaemon({ init: { accessToken: TOKEN } });
  const files = createClient(
    Filesystem,
    daemon.transport({ headers: { "x-access-token": TOKEN } }),
  );
  await files.stat({ path: "/tmp" });
  await files.stat({ path: "/no\nsuch" }).catch(() => undefined);
  await daemon.http("/files?path=/gone", { headers: { "x-access-token": TOKEN } });
  await daemon.http("/metrics");
  const run = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: {
      ...JSON_CALL,
      "content-type": "application/connect+json",
      "x-access-token": TOKEN,
    },
    body: frame('{"process":{"cmd":"printf","args":["out%s","put"],"envs":{"KEY":"hidden"}}}'),
  });
  expect(run.status).toBe(200);
  const socket = connect(daemon.controlSocket);
  socket.write("GET /logs HTTP/1.1\r\nHost: x\r\n\r\n");
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  await expect.poll(() => text).toContain("process_end");
  socket.destroy();
  const lines = text
    .split("\r\n")
    .flatMap((piece) => piece.split("\n"))
    .flatMap((line) => /^\d+ (\{.*)$/.exec(line)?.slice(1) ?? [])
    .map((line): Record<string, unknown> => JSON.parse(line));
  expect(lines.map((line) => [line["level"], line["logger"], line["message"]])).toEqual([
    ["info", "filesystem", "Filesystem stat"],
    ["error", "filesystem", "Filesystem stat"],
    ["error", "envd", "File read"],
    ["error", "envd", "Trying to access secured envd without correct access token"],
    ["debug", "process", "Process start (server stream start)"],
    ["info", "process", expect.stringMatching(/^Process with pid \d+ started$/)],
    ["info", "process", expect.stringMatching(/^Process with pid \d+ ended$/)],
    ["debug", "process", "Process start (server stream end)"],
  ]);
  expect([lines[1]?.["path"], lines[1]?.["error_code"], lines[2]?.["error_code"]]).toEqual([
    "/no\nsuch",
    5,
    404,
  ]);
  expect([text.includes("output"), text.includes("hidden"), text.includes(TOKEN)]).toEqual([
    false,
    false,
    false,
  ]);
});

function frame(json: string): Buffer {
  const body = Buffer.from(json);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}
