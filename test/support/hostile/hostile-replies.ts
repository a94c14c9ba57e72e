/** Replies that no honest service sends: every part of HTTP/1.1 wrong, and right in odd ways. */

import type { Random } from "../random.ts";

export interface HostileReply {
  /** Written one after another, each in a turn of its own. */
  readonly pieces: readonly Uint8Array[];
  /** Whether it is sent before anything was asked. */
  readonly isEarly: boolean;
  /** How the connection goes on after the last piece. */
  readonly ending: "end" | "open" | "reset";
}

const LONG = "x".repeat(20_000);

const STATUS_LINES = [
  ...[0, 1, 99, 100, 101, 102, 103, 150, 199, 204, 205, 206, 304, 599, 600, 601, 777, 999].map(
    (status) => `HTTP/1.1 ${String(status).padStart(3, "0")} X`,
  ),
  "HTTP/1.1 200",
  "HTTP/1.1 200 ",
  "HTTP/1.0 200 OK",
  "HTTP/0.9 200 OK",
  "HTTP/2.0 200 OK",
  "HTTP/1.1  200 OK",
  "HTTP/1.1 2000 OK",
  "HTTP/1.1 20 OK",
  "HTTP/1.1 -20 OK",
  "HTTP/1.1 200 \u0001\u007f\u00ff\t",
  `HTTP/1.1 200 ${LONG}`,
  "ICY 200 OK",
  "",
  "GET / HTTP/1.1",
];

const HEADERS = [
  "content-length: 5\r\ncontent-length: 5",
  "content-length: 5\r\ncontent-length: 6",
  "content-length: 5, 5",
  "content-length: -1",
  "content-length: 99999999999999999999999",
  "content-length: 0x5",
  "content-length: 5\r\ntransfer-encoding: chunked",
  "transfer-encoding: gzip, chunked",
  "transfer-encoding: identity",
  "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
  "transfer-encoding:\tchunked",
  "connection: close, content-length, content-type, transfer-encoding",
  "connection: upgrade\r\nupgrade: websocket",
  "connection: upgrade",
  "upgrade: h2c\r\nhttp2-settings: AAMAAABk",
  "http2-settings: AAMAAABk",
  "keep-alive: timeout=5\r\nproxy-connection: keep-alive",
  "te: trailers, gzip",
  "trailer: content-length, :status, x",
  ":status: 200",
  ":authority: example.com",
  "__proto__: x",
  "__proto__: x\r\n__proto__: y",
  "constructor: x\r\nconstructor: y",
  "tostring: x\r\nhasownproperty: x\r\nlength: 3",
  ": nameless",
  "no colon at all",
  "space in name: x",
  "name : x",
  "n\u00e4me: x",
  "n(a)me: x",
  "X-UPPER: y\r\nx-upper: z",
  "x: \u0000",
  "x: a\u0001b\u007f",
  "x: \u0080\u00ff\u00e9",
  "x: a\rb",
  "x: a\nb",
  "x: a\r\n folded",
  "x:",
  "host: a\r\nhost: b",
  "etag: a\r\netag: b\r\nage: 1\r\nage: 2\r\ndate: x\r\ndate: y\r\nlocation: a\r\nlocation: b",
  "content-type: a/b\r\ncontent-type: c/d",
  "access-control-allow-credentials: a\r\naccess-control-allow-credentials: b",
  "location: //[\u00ff",
  "set-cookie: a=b; domain=.localhost\r\nset-cookie: =\r\nset-cookie: ;;;",
  "set-cookie: \u0080=\u00ff; domain",
  `x: ${LONG}`,
  `${LONG}: x`,
  Array.from({ length: 900 }, (_, index) => `x${index}: y`).join("\r\n"),
  Array.from({ length: 2_500 }, (_, index) => `set-cookie: ${index}`).join("\r\n"),
  Array.from({ length: 300 }, () => "connection: x").join("\r\n"),
  "retry-after: -1\r\nserver: \t \t",
];

const BODIES = [
  "",
  "hello",
  "hello, longer than was said",
  "hel",
  "5\r\nhello\r\n0\r\n\r\n",
  "5\r\nhello\r\n0\r\ncontent-length: 9\r\nx: \u0080\r\n__proto__: x\r\n\r\n",
  "5\r\nhello\r\n0\r\n:status: 200\r\nbad name: x\r\n\r\n",
  "5\r\nhello",
  "5\r\nhelloXX0\r\n\r\n",
  "zz\r\nhello\r\n0\r\n\r\n",
  "-5\r\nhello\r\n0\r\n\r\n",
  "fffffffffffffffff\r\nhello",
  `5;${LONG}\r\nhello\r\n0\r\n\r\n`,
  `0\r\n${Array.from({ length: 900 }, (_, index) => `t${index}: y`).join("\r\n")}\r\n\r\n`,
  "\u0000\u0001\u0002",
];

const FRAMES = [
  "content-length: 5",
  "content-length: 0",
  "transfer-encoding: chunked",
  "transfer-encoding: chunked",
  "connection: close",
];

const GOOD = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const INFORMATION = [
  "HTTP/1.1 100 Continue\r\n\r\n",
  "HTTP/1.1 102 Processing\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n",
  "HTTP/1.1 199 X\r\ncontent-length: 5\r\n\r\nhello",
];

function head(random: Random): string {
  const status = random.once(2) ? random.pick(STATUS_LINES) : "HTTP/1.1 200 OK";
  const headers = [random.pick(FRAMES)];
  for (let count = random.below(4); count > 0; count -= 1) headers.push(random.pick(HEADERS));
  return `${[status, ...headers].join("\r\n")}\r\n\r\n`;
}

function text(random: Random): string {
  const kinds = [
    () => "",
    () => random.bytes(random.below(200)).toString("latin1"),
    () => `${random.pick(INFORMATION).repeat(1 + random.below(40))}${head(random)}`,
    () => random.pick(INFORMATION).repeat(1 + random.below(40)),
    () => `${GOOD}${head(random)}${random.pick(BODIES)}`,
    () => `${head(random)}${random.pick(BODIES)}${GOOD}`,
    () => `${head(random)}${GOOD}`,
    () => head(random).slice(0, 1 + random.below(40)),
  ];
  return random.once(4) ? random.pick(kinds)() : `${head(random)}${random.pick(BODIES)}`;
}

/** One reply; the same choices give the same reply. */
export function hostileReply(random: Random): HostileReply {
  const bytes = Buffer.from(text(random), "latin1");
  const cut = random.below(bytes.length + 1);
  const pieces = random.once(3) ? [bytes.subarray(0, cut), bytes.subarray(cut)] : [bytes];
  const endings = ["end", "end", "end", "open", "reset"] as const;
  return { pieces, isEarly: random.once(8), ending: random.pick(endings) };
}

/** Each odd status, header, frame and body by itself in a reply that is right otherwise. */
export function eachHostileReply(): readonly HostileReply[] {
  const texts = [
    ...STATUS_LINES.map((line) => `${line}\r\ncontent-length: 5\r\n\r\nhello`),
    ...HEADERS.map((lines) => `HTTP/1.1 200 OK\r\n${lines}\r\n\r\nhello`),
    ...HEADERS.map((lines) => `HTTP/1.1 101 Switching\r\n${lines}\r\n\r\nhello`),
    ...BODIES.map((body) => `HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n${body}`),
    ...BODIES.map((body) => `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`),
    ...INFORMATION.map((reply) => `${reply}${GOOD}`),
    "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello",
  ];
  return texts.map((line) => ({
    pieces: [Buffer.from(line, "latin1")],
    isEarly: false,
    ending: "end",
  }));
}
