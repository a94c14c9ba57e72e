/** The bytes of the daemon's RPCs as clients of any making see them, and what hostile ones get. */

import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DAEMON_PID, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { envelope, rawCall, readEnvelopes } from "../../support/raw-call.ts";

const UNARY = { "content-type": "application/json", "connect-protocol-version": "1" };
const STREAM = { ...UNARY, "content-type": "application/connect+json" };

function fault(code: string, message: string) {
  return { code, message };
}

function residentKib(status: string): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}

async function unary(
  daemon: TestDaemon,
  body: string | Uint8Array,
  headers: Record<string, string> = UNARY,
) {
  const path = "/filesystem.Filesystem/Stat";
  const reply = await daemon.http(path, { method: "POST", headers, body });
  const json: unknown = reply.text === "" ? undefined : JSON.parse(reply.text);
  return [reply.status, json];
}

test("an entry in JSON: names in camel case, sizes as numbers, defaults left out", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "file");
  await writeFile(path, "12345");
  const call = async (method: string, body: object) => {
    const reply = await daemon.http(`/filesystem.Filesystem/${method}`, {
      method: "POST",
      headers: UNARY,
      body: JSON.stringify(body),
    });
    expect(reply.headers["content-type"]).toBe("application/json");
    return JSON.parse(reply.text);
  };
  const entry = {
    name: "file",
    type: "FILE_TYPE_FILE",
    path,
    size: 5,
    mode: 0o644,
    permissions: "-rw-r--r--",
    owner: "root",
    group: "root",
    modifiedTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3,9})?Z$/),
  };
  expect([
    await call("Stat", { path, unknown: [1] }),
    await call("ListDir", { path: daemon.folder, depth: "1" }),
    await call("Remove", { path: join(daemon.folder, "gone") }),
  ]).toEqual([{ entry }, { entries: [expect.objectContaining({ name: "c" }), entry] }, {}]);
});

test("an entry's size is the first of its JSON, and the length of the reply is told", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "sized");
  await writeFile(path, "12345");
  const reply = await daemon.http("/filesystem.Filesystem/Stat", {
    method: "POST",
    headers: UNARY,
    body: JSON.stringify({ path }),
  });
  const text = `{"entry":{"size":5,"name":"sized","type":"FILE_TYPE_FILE","path":"${path}","mode":420,`;
  expect(reply.text.slice(0, text.length)).toBe(text);
  expect(reply.headers["content-length"]).toBe(String(reply.bytes.length));
});

test("a process as a stream of envelopes, closed by an empty object", async () => {
  await using daemon = await startTestDaemon();
  const reply = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: STREAM,
    body: envelope('{"process":{"cmd":"sh","args":["-c","echo out; kill -9 $$"]},"stdin":false}'),
  });
  expect([reply.status, reply.headers["content-type"]]).toEqual([200, "application/connect+json"]);
  // For a proxy that would hold the first message back until the last.
  expect(reply.headers["x-accel-buffering"]).toBe("no");
  expect(readEnvelopes(reply.bytes)).toEqual([
    { flags: 0, json: { event: { start: { pid: expect.any(Number) } } } },
    { flags: 0, json: { event: { data: { stdout: "b3V0Cg==" } } } },
    {
      flags: 0,
      json: { event: { end: { exitCode: -1, status: "signal: killed", error: "signal: killed" } } },
    },
    { flags: 2, json: {} },
  ]);
});

test("an error in a stream comes in its last envelope", async () => {
  await using daemon = await startTestDaemon();
  const reply = await daemon.http("/process.Process/Connect", {
    method: "POST",
    headers: STREAM,
    body: envelope('{"process":{"tag":"none"}}'),
  });
  expect([reply.status, readEnvelopes(reply.bytes)]).toEqual([
    200,
    [
      {
        flags: 2,
        json: { error: { code: "not_found", message: "process with tag none not found" } },
      },
    ],
  ]);
});

test("the protocol's headers", async () => {
  await using daemon = await startTestDaemon();
  const path = '{"path":"/"}';
  const missing = { "content-type": "application/json" };
  expect([
    await unary(daemon, path, missing),
    await unary(daemon, path, { ...UNARY, "connect-protocol-version": "2" }),
    await unary(daemon, path, { ...UNARY, "content-encoding": "gzip" }),
    (await unary(daemon, path, { ...UNARY, "connect-timeout-ms": "soon" }))[0],
    await unary(daemon, path, { ...UNARY, "connect-timeout-ms": "0" }),
    (await unary(daemon, path, { ...UNARY, "connect-timeout-ms": "9999999999" }))[0],
    (await unary(daemon, path, { ...UNARY, "content-type": "application/json; charset=utf-8" }))[0],
  ]).toEqual([
    [
      400,
      fault("invalid_argument", 'missing required header: set Connect-Protocol-Version to "1"'),
    ],
    [400, fault("invalid_argument", 'Connect-Protocol-Version must be "1": got "2"')],
    [501, expect.objectContaining({ code: "unimplemented" })],
    400,
    [504, fault("deadline_exceeded", "context deadline exceeded")],
    200,
    200,
  ]);
  const other = await daemon.http("/filesystem.Filesystem/Stat", {
    method: "POST",
    headers: { "content-type": "application/grpc" },
    body: "",
  });
  expect([other.status, other.headers["accept-post"], other.text]).toEqual([
    415,
    "application/json, application/proto",
    "",
  ]);
});

test.for([
  ["nothing", ""],
  ["no JSON", "{"],
  ["another type", "[]"],
  ["a wrong field", '{"path":5}'],
  ["a negative number", '{"path":"/","depth":-1}'],
  ["very deep JSON", `{"path":${"[".repeat(200_000)}`],
  ["bytes that are no text", Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22])],
] as const)("%s as a message is an invalid argument", async ([, body]) => {
  await using daemon = await startTestDaemon();
  const reply = await daemon.http("/filesystem.Filesystem/ListDir", {
    method: "POST",
    headers: UNARY,
    body,
  });
  expect([reply.status, JSON.parse(reply.text).code]).toEqual([400, "invalid_argument"]);
});

test("bytes that are no message in binary are an invalid argument", async () => {
  await using daemon = await startTestDaemon();
  // A field of a wire type that does not exist, a string that ends too early, one that is no text.
  const faults = ["a6de00f2", "0a05616263", "0a02fffe"].map((hex) => Buffer.from(hex, "hex"));
  const replies = faults.flatMap((bytes) => [
    unary(daemon, bytes, { ...UNARY, "content-type": "application/proto" }),
    startOfStream(daemon, envelope(bytes)),
  ]);
  const invalid = expect.objectContaining({ code: "invalid_argument" });
  expect(await Promise.all(replies)).toEqual(
    faults.flatMap(() => [
      [400, invalid],
      [200, { error: invalid }],
    ]),
  );
  const sound = await daemon.http("/filesystem.Filesystem/Stat", {
    method: "POST",
    headers: { ...UNARY, "content-type": "application/proto" },
    body: Buffer.from("0a012f", "hex"),
  });
  expect([sound.status, sound.headers["content-type"]]).toEqual([200, "application/proto"]);
});

async function startOfStream(daemon: TestDaemon, body: Buffer) {
  const reply = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: { ...STREAM, "content-type": "application/connect+proto" },
    body,
  });
  return [reply.status, readEnvelopes(reply.bytes).at(-1)?.json];
}

test("text that is no text leads nowhere", async () => {
  await using daemon = await startTestDaemon();
  const paths = ['"/\\ud800"', '"/\\u0000"', `"/${"x".repeat(5_000)}"`, '"\\u202e"'];
  const replies = await Promise.all(paths.map(async (path) => unary(daemon, `{"path":${path}}`)));
  expect(replies.map(([status]) => status)).toEqual([400, 400, 500, 404]);
});

test("a length that nobody would send is refused before anything is held for it", async () => {
  await using daemon = await startTestDaemon();
  const { text: before } = await daemon.http("/files?path=/proc/self/status");
  for (const announced of [0xffff_ffff, 4_194_305]) {
    const reply = await daemon.http("/process.Process/StreamInput", {
      method: "POST",
      headers: STREAM,
      body: envelope("{}", { announced }),
    });
    expect(readEnvelopes(reply.bytes)).toEqual([
      { flags: 2, json: { error: expect.objectContaining({ code: "resource_exhausted" }) } },
    ]);
  }
  const large = await unary(daemon, `{"path":"${"x".repeat(4_194_304)}"}`);
  expect(large[0]).toBe(429);
  const { text: after } = await daemon.http("/files?path=/proc/self/status");
  expect(residentKib(after) - residentKib(before)).toBeLessThan(65_536);
});

test("broken envelopes are errors of their stream", async () => {
  await using daemon = await startTestDaemon();
  const start = '{"process":{"cmd":"true"}}';
  for (const body of [
    Buffer.alloc(0),
    Buffer.from([0, 0]),
    envelope(start, { announced: 1000 }),
    Buffer.concat([envelope(start), envelope(start)]),
    envelope(start, { flags: 1 }),
    envelope("{}", { flags: 2 }),
  ]) {
    const reply = await daemon.http("/process.Process/Start", {
      method: "POST",
      headers: STREAM,
      body,
    });
    const last = readEnvelopes(reply.bytes).at(-1);
    expect([reply.status, last]).toEqual([
      200,
      { flags: 2, json: { error: expect.objectContaining({ code: expect.any(String) }) } },
    ]);
  }
});

test("whatever bytes arrive, the daemon lives on", async () => {
  await using daemon = await startTestDaemon();
  const rpc = "POST /process.Process/List HTTP/1.1\r\nContent-Type: application/json\r\n";
  const version = "Connect-Protocol-Version: 1\r\n";
  const requests: [string, boolean][] = [
    ["", false],
    ["\0\0\0\0", false],
    ["GET / HTTP/9.9\r\n\r\n", false],
    ["GET http://elsewhere/health HTTP/1.1\r\nHost: x\r\n\r\n", false],
    ["CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", false],
    ["GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", false],
    [`${rpc}${version}Host: [\r\nContent-Length: 2\r\n\r\n{}`, false],
    [`${rpc}${version}Host: a b@c\r\nContent-Length: 2\r\n\r\n{}`, false],
    [`${rpc.replace("1.1", "1.0")}${version}Content-Length: 2\r\n\r\n{}`, false],
    [`${rpc}${version}Host: x\r\nContent-Length: 50\r\n\r\n{}`, false],
    [`${rpc}${version}Host: x\r\nContent-Length: 50\r\n\r\n{}`, true],
    [`${rpc}${version}Host: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n`, true],
    [`GET /${"x".repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, false],
    ["GET /files?path=%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n", false],
    ["GET /files?%zz=%zz&path HTTP/1.1\r\nHost: x\r\n\r\n", false],
    ["GET /health HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ////\r\n\r\n", false],
    [
      `POST /files?path=${daemon.folder}/cut HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\nabc`,
      false,
    ],
    [
      `POST /files?path=${daemon.folder}/cut2 HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\n\x1f\x8b`,
      false,
    ],
    ["POST /files/compose HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", false],
  ];
  await Promise.all(
    requests.map(async ([bytes, isUnfinished]) =>
      rawCall(daemon.publicSocket, Buffer.from(bytes, "latin1"), { isUnfinished }),
    ),
  );
  await rawCall(daemon.controlSocket, "GET /tunnel/1 HTTP/1.1\r\nHost: x\r\nUpgrade: tcp\r\n\r\n");
  await rawCall(daemon.controlSocket, `POST /init HTTP/1.1\r\nHost: x\r\n\r\n`);
  expect((await daemon.http("/health")).status).toBe(204);
});

test("a stream whose reader vanishes leaves nothing open", async () => {
  await using daemon = await startTestDaemon();
  const count = async () => {
    // The kernel's watches are those of a child of the daemon.
    const helpers = `$(pgrep -P ${DAEMON_PID} -f inotify[.]pl)`;
    const watches = `for p in ${helpers}; do cat /proc/$p/fdinfo/*; done`;
    const script = `ls /proc/${DAEMON_PID}/fd | wc -l; (${watches}) | grep -c ^inotify`;
    const { stdout } = await runScript(daemon.processes, script);
    return stdout.trim().split("\n").map(Number);
  };
  // The first watch starts the child that all watches share from then on.
  const { watcherId } = await daemon.files.createWatcher({ path: daemon.folder });
  const [before = 0, watches] = await count();
  expect(watches).toBe(1);
  for (let round = 0; round < 5; round += 1) {
    const socket = connect(daemon.publicSocket);
    const body = envelope(`{"path":"${daemon.folder}"}`);
    socket.write(
      `POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\nHost: x\r\nConnect-Protocol-Version: 1\r\nContent-Type: application/connect+json\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body);
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.once("data", () => resolve());
    await promise;
    socket.destroy();
  }
  await expect.poll(async () => (await count())[1]).toBe(1);
  await expect.poll(async () => (await count())[0]).toBeLessThanOrEqual(before);
  await daemon.files.removeWatcher({ watcherId });
  expect((await count())[1]).toBe(0);
});
