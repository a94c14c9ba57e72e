/**
 * E46: one request from a client is one request inside, or none: whatever its method, its body and
 * what its Connection header asks to be left out. The server inside frames by the letter.
 */

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { createConnection } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createWebServer } from "../../src/egress/http-proxy.ts";
import { createPolicies } from "../../src/egress/policies.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { startTestDaemon, type TestDaemon } from "../support/daemon/envd.ts";
import { sendRawHttp2 } from "../support/hostile/raw-http2.ts";
import {
  FORMS,
  formOf,
  METHODS,
  OWN_HEADERS,
  PROTECTED,
  smuggleCase,
  SMUGGLED,
  toBytes,
  type SmuggleCase,
} from "../support/hostile/smuggling.ts";
import {
  HAS_BODY,
  startStrictServer,
  type StrictServer,
} from "../support/hostile/strict-server.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createRandom, printedSeed } from "../support/random.ts";
import { sendRaw, statusesIn, type RawDoor } from "../support/raw-call.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { startTestService, type TestService } from "../support/service.ts";

const CASES = IS_WHOLE_RUN ? 400 : 80;
const DOMAIN = "sandbox.localhost";

let certificate: TestCertificate;
let service: TestService;
let strict: StrictServer;
let daemon: TestDaemon;
let sandbox: SandboxBody;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  strict = await startStrictServer();
  daemon = await startTestDaemon();
  const { identity } = certificate;
  const host = "127.0.0.1";
  service = await startTestService({
    tcp: [
      { host, port: 0 },
      { host, port: 0, tls: identity },
    ],
  });
  sandbox = await service.create();
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await strict[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

interface Way {
  readonly door: RawDoor;
  readonly target: string;
  readonly lines: readonly string[];
}

const port = (index: number) => Number(service.embedded.ports[index]);
const addressed = (inner: number) => [
  "host: localhost",
  `e2b-sandbox-id: ${sandbox.sandboxID}`,
  `e2b-sandbox-port: ${inner}`,
];
const unix = () => ({ path: service.embedded.socketPath });
const key = () => `x-api-key: ${service.embedded.apiKey}`;

/** Every place at which a request is read, and whether the strict server is behind it. */
const WAYS: Readonly<Record<string, () => Way>> = {
  "a socket": () => ({ door: unix(), target: "/a?b", lines: addressed(strict.port) }),
  "TCP, by its host": () => ({
    door: { port: port(0) },
    target: "/a?b",
    lines: [`host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`],
  }),
  TLS: () => ({
    door: { port: port(1), ca: certificate.authority, servername: DOMAIN },
    target: "/a?b",
    lines: addressed(strict.port),
  }),
  "the daemon through the gateway": () => ({
    door: unix(),
    target: "/health",
    lines: addressed(49_983),
  }),
  "the daemon itself": () => ({
    door: { path: daemon.publicSocket },
    target: "/health",
    lines: ["host: localhost"],
  }),
  "the control API": () => ({
    door: unix(),
    target: "/sandboxes",
    lines: ["host: localhost", key()],
  }),
  MCP: () => ({ door: unix(), target: "/mcp", lines: ["host: localhost", key()] }),
};

const ANY_STATUS: unknown = expect.any(Number);

/** The body that a server with the whole of it has. */
const bodyOf = (one: SmuggleCase) => (formOf(one).headers.includes(HAS_BODY) ? SMUGGLED : "");

/** What a case led to, in words that are equal to what it must lead to. */
async function play(one: SmuggleCase, { door, target, lines }: Way) {
  const statuses = statusesIn(await sendRaw(door, toBytes(one, target, lines)));
  const requests = await strict.take();
  const arrived = requests.map(({ method, body, ...rest }) => [method, rest.target, body]);
  return { statuses, arrived };
}

function expected(one: SmuggleCase, { target, lines }: Way): object {
  // A fault at the end of a body may come after the answer.
  if (one.isFaulty) return { statuses: [ANY_STATUS], arrived: [] };
  if (one.isProtected) return { statuses: [400], arrived: [] };
  const isCounted = lines.some((line) => line.includes(String(strict.port)));
  return {
    statuses: [ANY_STATUS],
    arrived: isCounted ? [[one.method, target, bodyOf(one)]] : [],
  };
}

test.for(Object.keys(WAYS))("E46 Connection × method × body, at %s", async (name, context) => {
  const seed = printedSeed("E46");
  const way = WAYS[name]?.();
  if (way === undefined) throw new Error("no such way");
  for (let index = 0; index < CASES; index += 1) {
    const one = smuggleCase(createRandom(seed + index));
    const outcome = await play(one, way);
    const right = { seed, index, one, ...expected(one, way) };
    expect({ seed, index, one, ...outcome }).toEqual(right);
  }
  tellCells(context, CASES);
});

test("E46 each header that frames or routes × each method × each body, at a socket", async (context) => {
  const way = WAYS["a socket"]?.();
  if (way === undefined) throw new Error("no such way");
  const methods = IS_WHOLE_RUN ? METHODS : METHODS.slice(0, 3);
  let cells = 0;
  for (const named of PROTECTED) {
    for (const method of methods) {
      for (const form of Object.keys(FORMS)) {
        const connection = [`connection: close, ${named}`];
        const one = { method, form, named, connection, isProtected: true, isFaulty: false };
        expect({ one, ...(await play(one, way)) }).toEqual({ one, statuses: [400], arrived: [] });
        cells += 1;
      }
    }
  }
  tellCells(context, cells);
});

test("E46 an upgrade with a body is refused: what follows it is not of the other protocol", async (context) => {
  const lines = addressed(strict.port);
  let cells = 0;
  const withBody = Object.entries(FORMS).filter(([, { bytes }]) => bytes !== "");
  for (const method of METHODS) {
    for (const [form, { headers, bytes }] of withBody) {
      const head = [`${method} / HTTP/1.1`, ...lines, ...headers, "upgrade: x"];
      const text = `${[...head, "connection: upgrade"].join("\r\n")}\r\n\r\n${bytes}`;
      const statuses = statusesIn(await sendRaw(unix(), text));
      const arrived = await strict.take();
      const right = { method, form, statuses: [400], arrived: [] };
      expect({ method, form, statuses, arrived }).toEqual(right);
      cells += 1;
    }
  }
  tellCells(context, cells);
});

test("E46 over HTTP/2 headers that have no place there never become a second request", async (context) => {
  const door = { port: port(1), ca: certificate.authority, servername: DOMAIN };
  const size = String(SMUGGLED.length);
  const hostile: readonly (readonly [string, string])[][] = [
    ...PROTECTED.map((name) => [["connection", name] as const]),
    [["connection", "close"]],
    [["transfer-encoding", "chunked"]],
    [["upgrade", "x"]],
    [["keep-alive", "1"]],
    [["proxy-connection", "close"]],
    [["content-length", "3"]],
    [["content-length", "0"]],
    [["content-length", `+${size}`]],
    [["content-length", `${size}, ${size}`]],
    [
      ["content-length", size],
      ["content-length", "3"],
    ],
    [["host", "localhost"]],
    [["Content-Length", size]],
    [["x-own", "a\r\ntransfer-encoding: chunked"]],
    [["x-own\r\nx", "a"]],
    [["x-own: a\r\ncontent-length", "3"]],
    [[":path", "/second"]],
    [[":path\r\n", "/second"]],
  ];
  const targets = ["/a?b", "/a b", "/a HTTP/1.1\r\nhost: x\r\n\r\n", "//", "*", ""];
  const authority = `${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const oddMethod = "GET / HTTP/1.1\r\n\r\nGET";
  const methods = IS_WHOLE_RUN ? ["GET", "POST", "DELETE", "TRACE", oddMethod] : ["GET"];
  const outcomes = new Set<string>();
  let cells = 0;
  for (const method of methods) {
    const odd = targets.slice(1).map((path) => ({ path, headers: [] }));
    for (const { path, headers } of [
      ...hostile.map((one) => ({ path: "/a?b", headers: one })),
      ...odd,
    ]) {
      const pseudo = [
        [":method", method],
        [":scheme", "https"],
        [":authority", authority],
        [":path", path],
      ] as const;
      const own = ["x-has-body", "yes"] as const;
      const outcome = await sendRawHttp2(door, {
        headers: [...pseudo, own, ...headers],
        body: SMUGGLED,
      });
      outcomes.add(outcome);
      const arrived = (await strict.take()).map((one) => one.body);
      const isWhole = arrived.length === 1 && arrived[0] === SMUGGLED;
      expect({
        method,
        path,
        headers,
        outcome,
        arrived,
        isRight: arrived.length === 0 || isWhole,
      }).toEqual({ method, path, headers, outcome, arrived, isRight: true });
      cells += 1;
    }
  }
  // Some of them are refused, and some are one request with what has no place left out.
  expect([...outcomes]).toEqual(expect.arrayContaining(["answered", "reset"]));
  tellCells(context, cells);
});

const dialStrict = async () => createConnection({ port: strict.port, host: "127.0.0.1" });
const isOneAtMost = (statuses: readonly number[]) => statuses.length <= 1;

test("E46 over HTTP/2 each method × each body is one request", async (context) => {
  const ca = certificate.authority;
  const session = connectHttp2(`https://127.0.0.1:${port(1)}`, { ca, servername: DOMAIN });
  const authority = `${strict.port}-${sandbox.sandboxID}.${DOMAIN}:${port(1)}`;
  const size = { "content-length": String(SMUGGLED.length) };
  const own = { "x-has-body": "yes" };
  const trailers = { waitForTrailers: true };
  const forms = [
    { headers: {}, body: "", options: { endStream: true } },
    { headers: {}, body: "", options: {} },
    { headers: own, body: SMUGGLED, options: {} },
    { headers: { ...own, ...size }, body: SMUGGLED, options: {} },
    { headers: { ...own, trailer: "content-length" }, body: SMUGGLED, options: trailers },
    { headers: { ...own, expect: "100-continue", te: "trailers" }, body: SMUGGLED, options: {} },
  ];
  let cells = 0;
  for (const method of METHODS) {
    for (const { headers, body, options } of forms) {
      const pseudo = { ":authority": authority, ":path": "/a?b", ":method": method };
      const stream = session.request({ ...pseudo, ...headers }, { endStream: false, ...options });
      stream.on("wantTrailers", () => stream.sendTrailers({ "x-api-key": "1" }));
      if (!("endStream" in options)) stream.end(body);
      const [reply] = await once(stream, "response");
      stream.resume();
      await once(stream, "close");
      const arrived = (await strict.take()).map((one) => [one.method, one.target, one.body]);
      const right = { method, headers, status: 200, arrived: [[method, "/a?b", body]] };
      expect({ method, headers, status: reply[":status"], arrived }).toEqual(right);
      cells += 1;
    }
  }
  session.close();
  tellCells(context, cells);
});

test("E46 the web door of sandboxes writes each request anew, and one of it", async (context) => {
  const seed = printedSeed("E46");
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["allowed.test"]);
  const server = createWebServer({ policies, dial: dialStrict });
  const webPort = await listenOnLoopback(server);
  const way = { door: { port: webPort }, target: "/a?b", lines: ["host: allowed.test"] };
  const count = IS_WHOLE_RUN ? 1000 : 500;
  for (let index = 0; index < count; index += 1) {
    const one = smuggleCase(createRandom(seed + index));
    const { statuses, arrived } = await play(one, way);
    const body = bodyOf(one);
    // What no server may read is cut off here, without a word or after one.
    const faulty = { statuses: expect.toSatisfy(isOneAtMost), arrived: [] };
    const whole = { statuses: [200], arrived: [[one.method, "/a?b", body]] };
    const right = one.isFaulty
      ? faulty
      : one.isProtected && !OWN_HEADERS.includes(one.named)
        ? { statuses: [400], arrived: [] }
        : whole;
    expect({ seed, index, one, statuses, arrived }).toEqual({ seed, index, one, ...right });
  }
  server.close();
  tellCells(context, count);
});

test("E46 control: a request that goes on without its length is two requests", async () => {
  const way = { port: strict.port, host: "127.0.0.1", agent: false as const };
  const headers = ["host", "localhost", "x-has-body", "yes"];
  const call = httpRequest({ ...way, method: "GET", path: "/first", headers, setHost: false });
  const { promise, resolve } = Promise.withResolvers<void>();
  call.on("response", (reply) => {
    reply.resume();
    reply.once("end", () => {
      call.destroy();
      resolve();
    });
  });
  call.on("error", () => undefined);
  call.end(SMUGGLED);
  await promise;
  const targets = (await strict.take()).map(({ target }) => target);
  expect(targets).toEqual(["/first", "/smuggled"]);
});
