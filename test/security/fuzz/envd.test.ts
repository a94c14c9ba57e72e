/** Hostile bytes on the socket that the daemon shows to clients. */

import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { toTarget } from "../../support/hostile/daemon-target.ts";
import { fuzz, split, type FuzzInput } from "../../support/hostile/fuzz.ts";
import { hostileJson, hostilePath } from "../../support/hostile/hostile.ts";
import { mutate, type Random } from "../../support/random.ts";
import { envelope } from "../../support/raw-call.ts";

const VERSION = "Connect-Protocol-Version: 1\r\n";
const STREAMS = ["process.Process/Start", "process.Process/StreamInput", "process.Process/Connect"];
const UNARY = ["process.Process/List", "process.Process/SendInput", "process.Process/SendSignal"];
/** Operations that change nothing, whatever path they are asked for. */
const READERS = ["Stat", "ListDir", "CreateWatcher", "GetWatcherEvents", "RemoveWatcher"];

function post(path: string, headers: string, body: Uint8Array): Buffer {
  const length = `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  return Buffer.concat([
    Buffer.from(`POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}${length}`, "latin1"),
    body,
  ]);
}

function ending(random: Random): FuzzInput["ending"] {
  return random.pick(["open", "open", "open", "end", "cut"]);
}

function envelopes(random: Random): FuzzInput {
  const starts = [
    '{"process":{"cmd":"true"}}',
    '{"process":{"cmd":"sh","args":["-c","echo x"]},"tag":"t","stdin":true}',
    '{"process":{"tag":"t"}}',
    '{"start":{"process":{"pid":1}}}',
    '{"data":{"input":{"stdin":"eA=="}}}',
    '{"keepalive":{}}',
    "",
  ];
  const frames = Array.from({ length: 1 + random.below(4) }, () => {
    const text = Buffer.from(random.pick(starts));
    const message = random.once(2) ? text : mutate(random, text);
    const lengths = [0, 1, message.length + 1, 4_194_304, 4_194_305, 0x7fff_ffff, 0xffff_ffff];
    return envelope(message, {
      flags: random.once(3) ? random.below(256) : 0,
      ...(random.once(3) && { announced: random.pick(lengths) }),
    });
  });
  const trailing = random.once(3) ? random.bytes(random.below(20)) : Buffer.alloc(0);
  const codec = random.pick(["json", "json", "proto"]);
  const headers = `Content-Type: application/connect+${codec}\r\n${VERSION}`;
  const body = Buffer.concat([...frames, trailing]);
  const request = post(`/${random.pick(STREAMS)}`, headers, body);
  return { pieces: split(random, request), ending: ending(random) };
}

function messages(random: Random): FuzzInput {
  const body = hostileJson(random, [
    { process: { pid: 1 }, input: { stdin: "eA==" } },
    { process: { tag: "t" }, signal: "SIGNAL_SIGTERM" },
    { process: { pid: 4_294_967_295 }, signal: 15 },
    {},
  ]);
  const codec = random.pick(["json", "json", "proto"]);
  const headers = `Content-Type: application/${codec}\r\n${VERSION}`;
  return {
    pieces: split(random, post(`/${random.pick(UNARY)}`, headers, body)),
    ending: ending(random),
  };
}

function paths(daemon: TestDaemon) {
  const base = join(daemon.folder, "w");
  return (random: Random): FuzzInput => {
    const path = hostilePath(random, base);
    if (random.once(3)) {
      const names = [
        ["path", path],
        ["username", random.pick(["root", "", path])],
      ] as const;
      const query = names.map(([name, value]) => `${name}=${encodeQuery(value)}`).join("&");
      const request = `GET /files?${query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
      return { pieces: [Buffer.from(request, "latin1")], ending: "open" };
    }
    const text = JSON.stringify({ path: path.toString("latin1"), depth: random.below(3) });
    const headers = `Content-Type: application/json\r\n${VERSION}`;
    const operation = `/filesystem.Filesystem/${random.pick(READERS)}`;
    return { pieces: [post(operation, headers, Buffer.from(text))], ending: "open" };
  };
}

function encodeQuery(value: string | Uint8Array): string {
  const bytes = Buffer.from(value);
  return [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
}

function forms(daemon: TestDaemon) {
  const base = join(daemon.folder, "w");
  return (random: Random): FuzzInput => {
    const boundary = random.pick([
      "b",
      "-",
      "b b",
      "\r\n",
      '"',
      "x".repeat(70),
      "x".repeat(300),
      "",
    ]);
    const names = [
      'filename="f"',
      "filename*=UTF-8''%66%2f%00",
      'filename="a\\"b"',
      "filename*=x''%",
      "",
    ];
    const part = () => {
      const name = random.pick(names).replace('="', `="${base}/`);
      const head = `Content-Disposition: form-data; name="file"; ${name}`;
      return `--${boundary}\r\n${head}\r\n\r\n${"y".repeat(random.below(300))}\r\n`;
    };
    const parts = Array.from({ length: random.once(20) ? 2_000 : random.below(4) }, part);
    const end = random.once(3) ? "" : `--${boundary}--\r\n`;
    const whole = Buffer.from(`${parts.join("")}${end}`, "latin1");
    const body = random.once(2) && whole.length < 5_000 ? mutate(random, whole) : whole;
    const coding = random.once(5) ? "Content-Encoding: gzip\r\n" : "";
    const type = `Content-Type: multipart/form-data; boundary="${boundary.replaceAll('"', '\\"')}"\r\n`;
    const path = random.once(2) ? `?path=${base}/p` : "";
    return {
      pieces: split(random, post(`/files${path}`, `${type}${coding}`, body)),
      ending: ending(random),
    };
  };
}

/** Whole requests with bytes of theirs changed: request line, headers, chunk sizes, body. */
function requests(random: Random): FuzzInput {
  const known = [
    "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /files?path=/etc/hostname HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3,5-\r\nIf-Range: x\r\n\r\n",
    "GET /files?path=/etc/hostname HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=0.5, *;q=0\r\n\r\n",
    'GET /files?path=/etc/hostname HTTP/1.1\r\nHost: x\r\nIf-None-Match: "a", W/"b"\r\n\r\n',
    "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic cm9vdDo=\r\nOrigin: http://a\r\n\r\n",
    "OPTIONS /files HTTP/1.1\r\nHost: x\r\nOrigin: a\r\nAccess-Control-Request-Method: GET\r\n\r\n",
    "POST /process.Process/List HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "POST /process.Process/List HTTP/1.1\r\nHost: [\r\nConnect-Timeout-Ms: 9999999999\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "GET /envs HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /envs HTTP/1.1\r\nHost: x\r\n\r\n",
  ];
  const bytes = mutate(random, Buffer.from(random.pick(known), "latin1"));
  const long = random.once(20) ? Buffer.alloc(random.below(40_000), "A: b\r\n") : Buffer.alloc(0);
  return { pieces: split(random, Buffer.concat([long, bytes])), ending: ending(random) };
}

/** Whole requests, each with some headers that the daemon looks into, filled with anything. */
function headerLines(daemon: TestDaemon) {
  const file = join(daemon.folder, "w", "h");
  const names = [
    ["Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "Accept-Encoding"],
    ["Content-Encoding", "Content-Type", "X-Metadata-K", "X-Metadata-", "X-Access-Token"],
    ["Connect-Timeout-Ms", "Connect-Content-Encoding", "Keepalive-Ping-Interval", "Authorization"],
    ["Origin", "Access-Control-Request-Method", "Connect-Protocol-Version", "User-Agent"],
  ].flat();
  const values = [
    ["", "0", "-1", "1e9", "9999999999", "99999999999", "*", ",", "gzip", "identity;q=0, *;q=0"],
    [
      "bytes=0-",
      "bytes=-1",
      "bytes=9-1,,",
      `bytes=${"0-0,".repeat(300)}`,
      'W/"a"',
      "x".repeat(5_000),
    ],
    [
      "Basic",
      "Basic !!!",
      "Basic cm9vdDo=",
      "Bearer x",
      "multipart/form-data; boundary",
      "\x80\xff",
    ],
    ["Sun, 06 Nov 1994 08:49:37 GMT", `gzip${";q=0.1,gzip".repeat(400)}`, `a${";b=c".repeat(900)}`],
  ].flat();
  return (random: Random): FuzzInput => {
    const line = () => {
      const value = Buffer.from(random.pick(values), "latin1");
      const text = (random.once(3) ? mutate(random, value) : value).toString("latin1");
      return `${random.pick(names)}: ${text.replaceAll(/[\r\n\0]/g, " ")}\r\n`;
    };
    const lines = Array.from({ length: random.once(20) ? 200 : 1 + random.below(6) }, line);
    const body = Buffer.from('{"process":{"cmd":"true"}}');
    const json = "Content-Type: application/json\r\n";
    const stream = "Content-Type: application/connect+json\r\n";
    const request = random.pick([
      Buffer.from(`GET /files?path=${file} HTTP/1.1\r\nHost: x\r\n${lines.join("")}\r\n`, "latin1"),
      post(`/files?path=${file}`, lines.join(""), body),
      post("/process.Process/List", `${json}${VERSION}${lines.join("")}`, Buffer.from("{}")),
      post("/process.Process/Start", `${stream}${VERSION}${lines.join("")}`, envelope(body)),
    ]);
    return { pieces: split(random, request), ending: ending(random) };
  };
}

test("raw HTTP", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  expect(await fuzz(await toTarget(daemon), requests)).toBeGreaterThan(10);
});

test("headers", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  await writeFile(join(daemon.folder, "w", "h"), "text");
  expect(await fuzz(await toTarget(daemon), headerLines(daemon))).toBeGreaterThan(10);
});

test("envelopes of a stream", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  expect(await fuzz(await toTarget(daemon), envelopes)).toBeGreaterThan(10);
});

test("messages of unary calls", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  expect(await fuzz(await toTarget(daemon), messages)).toBeGreaterThan(10);
});

test("paths", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  const base = join(daemon.folder, "w");
  await mkdir(join(base, "d", "e"), { recursive: true });
  await writeFile(join(base, "d", "f"), "text");
  await symlink("loop", join(base, "loop"));
  for (let link = 0; link < 300; link += 1) {
    await symlink(link === 0 ? "d" : `l${link - 1}`, join(base, `l${link}`));
  }
  expect(await fuzz(await toTarget(daemon), paths(daemon))).toBeGreaterThan(10);
});

test("forms", async () => {
  await using daemon = await startTestDaemon({ isSealed: true });
  expect(await fuzz(await toTarget(daemon), forms(daemon))).toBeGreaterThan(10);
});

test("signatures", async () => {
  const accessToken = "secret";
  await using daemon = await startTestDaemon({ isSealed: true, init: { accessToken } });
  const target = await toTarget(daemon, accessToken);
  const count = await fuzz(target, (random) => {
    const query = Buffer.from(
      `path=${daemon.folder}/w/x&username=root&signature=v1_${"A".repeat(43)}&signature_expiration=9999999999`,
    );
    const head = `${random.pick(["GET", "POST"])} /files?`;
    const end = " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const bytes = Buffer.concat([Buffer.from(head), mutate(random, query), Buffer.from(end)]);
    return { pieces: [bytes], ending: "open" };
  });
  expect(count).toBeGreaterThan(10);
});
