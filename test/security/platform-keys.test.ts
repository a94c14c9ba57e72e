/**
 * E48: a key or token of the platform never arrives inside, whatever header it is in, however it is
 * spelled, of whatever shape it is and through whichever door it comes; what is the application's
 * own arrives as it was sent.
 */

import { once } from "node:events";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSystemClock } from "../../src/common/clock.ts";
import { createKey } from "../../src/sandboxes/keys.ts";
import type { SandboxBody } from "../../src/wire/control.ts";
import { SPELLINGS, toHeaderText, type Spelling } from "../support/hostile/key-spellings.ts";
import { startStrictServer, type StrictServer } from "../support/hostile/strict-server.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createRandom, printedSeed, type Random } from "../support/random.ts";
import { sendRaw, statusesIn, type RawDoor } from "../support/raw-call.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { startTestService, type TestService } from "../support/service.ts";

const CASES = IS_WHOLE_RUN ? 400 : 110;
const DOMAIN = "sandbox.localhost";
const GIVEN = ["no-shape-at-all-1", 'odd "Key" +/=%41 \\x; y', "k3y", "schlüssel-größe-1", "57"];
const FOREIGN = `e2b_${"5a".repeat(20)}`;
/** What other services ask for, and what only looks like a key. */
const OWN = [
  `x-foreign: ${FOREIGN}`,
  `x-foreign-basic: Basic ${Buffer.from(`user:${FOREIGN}`).toString("base64")}`,
  "x-words: k3yboard, no-shape-at-all-2, schl%C3%BCssel",
  "x-empty:",
];
const OWN_COOKIE = "first=1; second=Bearer%20x";

let certificate: TestCertificate;
let service: TestService;
let strict: StrictServer;
let sandbox: SandboxBody;
let session: ClientHttp2Session;
let secrets: Readonly<Record<string, string>>;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  strict = await startStrictServer();
  const host = "127.0.0.1";
  const tcp = [
    { host, port: 0 },
    { host, port: 0, tls: certificate.identity },
  ];
  service = await startTestService({ tcp, apiKeys: GIVEN });
  sandbox = await service.create({ network: { allowPublicTraffic: false } });
  const { store, apiKey } = service.embedded;
  const names = ["a shape of its own", "odd signs", "short", "not ASCII", "short, digits"];
  const given = GIVEN.map((key, index) => [`given, ${names[index]}`, key] as const);
  secrets = {
    made: createKey(store, createSystemClock(), { name: "made" }).key,
    "the private door's": apiKey,
    ...Object.fromEntries(given),
    "the daemon's token": String(sandbox.envdAccessToken),
    "the token of private ports": String(sandbox.trafficAccessToken),
  };
  const ca = certificate.authority;
  session = connectHttp2(`https://127.0.0.1:${port(1)}`, { ca, servername: DOMAIN });
});
afterAll(async () => {
  session.close();
  await service[Symbol.asyncDispose]();
  await strict[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

const port = (index: number) => Number(service.embedded.ports[index]);
const unix = () => ({ path: service.embedded.socketPath });

const PLACES = [
  "authorization",
  "cookie",
  "x-own",
  "x-api-key",
  "x-access-token",
  "sec-websocket-protocol",
  "referer",
  "user-agent",
  "accept",
  "proxy-authorization",
  "x-amz-security-token",
  "e2b-traffic-access-token",
];

interface SecretCase extends Spelling {
  readonly kind: string;
  readonly spelling: string;
  readonly place: string;
}

function secretCase(random: Random): SecretCase {
  const [kind, key] = random.pick(Object.entries(secrets));
  const [spelling, spell] = random.pick(Object.entries(SPELLINGS));
  const place = random.pick(PLACES);
  const { value, core } = spell(toHeaderText(key), random);
  const wrapped = place === "cookie" ? `first=1; key=${value}; second=Bearer%20x` : value;
  return { kind, spelling, place, value: wrapped, core };
}

/** The line of a case beside those without which nobody gets in. */
function toLines({ place, value }: SecretCase): readonly string[] {
  const own = place === "e2b-traffic-access-token" ? [] : [`${place}: ${value}`];
  return [
    `host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`,
    `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`,
    ...own,
    ...(place === "cookie" ? [] : [`cookie: ${OWN_COOKIE}`]),
    ...OWN,
  ];
}

/** So short a key is a part of other words. */
const isWordOnly = (text: string) => text.length < 8;
const isPlain = (text: string) => /^[\x20-\x7e]*$/.test(text);

/** What of the case arrived, and what of the application did not. */
async function look({ core, place, value }: SecretCase) {
  const requests = await strict.take();
  const bytes = strict.bytes();
  const raw = Object.values(secrets).map((key) => toHeaderText(key));
  const found = [...raw, core].filter((text) => !isWordOnly(text) && bytes.includes(text));
  // A cookie with a separator in it cannot be told from the others, and takes them with it.
  const own = place === "cookie" ? [] : [`cookie: ${OWN_COOKIE}`];
  const isLeft = value !== "" && bytes.includes(`${place}: ${value}`);
  const missing = [...OWN, ...own].filter((line) => !bytes.includes(line));
  return { requests: requests.length, found, missing, isLeft };
}

const HELD = { requests: 1, found: [], missing: [], isLeft: false };

const RAW: Readonly<Record<string, () => { door: RawDoor; lines: string[]; status: number }>> = {
  "a socket": () => ({ door: unix(), lines: ["connection: close"], status: 200 }),
  TCP: () => ({ door: { port: port(0) }, lines: ["connection: close"], status: 200 }),
  TLS: () => ({
    door: { port: port(1), ca: certificate.authority, servername: DOMAIN },
    lines: ["connection: close"],
    status: 200,
  }),
  "an upgrade": () => ({
    door: unix(),
    lines: ["connection: upgrade", "upgrade: x"],
    status: 101,
  }),
};

test.for(Object.keys(RAW))("E48 header × spelling × key, through %s", async (way, context) => {
  const seed = printedSeed("E48");
  const { door, lines, status } = RAW[way]?.() ?? { door: unix(), lines: [], status: 0 };
  for (let index = 0; index < CASES; index += 1) {
    const one = secretCase(createRandom(seed + index));
    const head = ["GET /path?q=1 HTTP/1.1", ...toLines(one), ...lines].join("\r\n");
    const pieces = Buffer.from(`${head}\r\n\r\n`, "latin1");
    const statuses = statusesIn(await sendRaw(door, pieces));
    const right = { seed, index, one, statuses: [status], ...HELD };
    expect({ seed, index, one, statuses, ...(await look(one)) }).toEqual(right);
  }
  tellCells(context, CASES);
});

test("E48 header × spelling × key, through HTTP/2", async (context) => {
  const seed = printedSeed("E48");
  let cells = 0;
  for (let index = 0; index < CASES; index += 1) {
    const one = secretCase(createRandom(seed + index));
    const pairs = toLines(one).map((line) => /^([^:]+): ?(.*)$/s.exec(line)?.slice(1) ?? []);
    if (!isPlain(one.value)) continue;
    const headers = Object.fromEntries(pairs.filter(([name]) => name !== "host"));
    const authority = `${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
    const stream = session.request({ ...headers, ":authority": authority, ":path": "/path" });
    const [reply] = await once(stream, "response");
    stream.resume();
    await once(stream, "close");
    const status = Number(reply[":status"]);
    const { requests, found, isLeft } = await look(one);
    const outcome = { seed, index, one, status, requests, found, isLeft };
    expect(outcome).toEqual({
      ...outcome,
      status: 200,
      requests: 1,
      found: [],
      isLeft: false,
    });
    cells += 1;
  }
  tellCells(context, cells);
});

/** Where nothing can be taken out the request is refused; what never passes is let in without. */
test("E48 in a header's name, a trailer, the target, the host and the protocol", async (context) => {
  const searched = Object.entries(secrets).filter(([kind]) => !/odd|short|ASCII/.test(kind));
  const host = `host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const base = [host, `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`];
  let cells = 0;
  for (const [kind, key] of searched) {
    const encoded = Buffer.from(`user:${key}`).toString("base64url");
    const chunked = "transfer-encoding: chunked";
    const bytes = {
      name: ["GET / HTTP/1.1", ...base, `${key}: 1`, `x-${key}-x: 1`],
      "base64 in a name": ["GET / HTTP/1.1", ...base, `x-${encoded}: 1`],
      trailer: ["POST / HTTP/1.1", ...base, chunked, "", "0", `x-own: ${key}`],
      query: [`GET /?token=${key} HTTP/1.1`, ...base],
      "base64 in the query": [`GET /?token=${encoded} HTTP/1.1`, ...base],
      path: [`GET /a/${key}/b HTTP/1.1`, ...base],
      protocol: ["GET / HTTP/1.1", ...base, `upgrade: x, ${key}`],
    };
    for (const [place, lines] of Object.entries(bytes)) {
      const connection = place === "protocol" ? "connection: upgrade" : "connection: close";
      const [first = "", ...rest] = lines;
      const text = `${[first, connection, ...rest].join("\r\n")}\r\n\r\n`;
      const statuses = statusesIn(await sendRaw(unix(), text));
      const requests = await strict.take();
      const isRefused = ["query", "base64 in the query", "path", "protocol"].includes(place);
      const arrived = [key, encoded].filter((secret) => strict.bytes().includes(secret));
      const outcome = { kind, place, statuses, requests: requests.length, arrived };
      const right = isRefused ? { statuses: [400], requests: 0 } : { statuses: [200], requests: 1 };
      expect(outcome).toEqual({ kind, place, arrived: [], ...right });
      cells += 1;
    }
  }
  tellCells(context, cells);
});

test("E48 of many cookies the one with a key goes, and the daemon gets its token alone", async () => {
  const key = String(secrets["made"]);
  const host = `host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const token = `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`;
  const cookie = `cookie: first=1; key=${key}; second=2`;
  const lines = ["GET / HTTP/1.1", host, token, cookie, "connection: close"];
  await sendRaw(unix(), `${lines.join("\r\n")}\r\n\r\n`);
  const [request] = await strict.take();
  expect(request?.head).toMatch(/^cookie: first=1; second=2$/m);
  const enter = async (value: string) =>
    (await service.enter(sandbox, { path: "/envs", headers: { "x-access-token": value } })).status;
  expect([await enter(String(sandbox.envdAccessToken)), await enter(key)]).toEqual([200, 401]);
});

test("E48 a key that is the length of a body takes no length away", async () => {
  const host = `host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const token = `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`;
  const body = "GET /smuggled HTTP/1.1\r\nhost: localhost\r\n".padEnd(53, "x").concat("\r\n\r\n");
  const own = ["content-length: 57", "x-own: 57", "connection: close"];
  const lines = ["GET /57/k3y HTTP/1.1", host, token, ...own];
  await sendRaw(unix(), `${lines.join("\r\n")}\r\n\r\n${body}`);
  const requests = await strict.take();
  expect(requests.map((one) => [one.target, one.body])).toEqual([["/57/k3y", body]]);
  expect(requests[0]?.head).not.toMatch(/^x-own/m);
});

test("E48 a head full of nested base64 and keys that are none costs little", async () => {
  let text = FOREIGN;
  while (text.length < 5_000) text = Buffer.from(`${text} ${text}`).toString("base64");
  const host = `host: ${strict.port}-${sandbox.sandboxID}.${DOMAIN}`;
  const token = `e2b-traffic-access-token: ${sandbox.trafficAccessToken}`;
  const lines = ["GET / HTTP/1.1", host, token, `x-own: ${text}`, "connection: close"];
  const before = process.cpuUsage();
  const statuses = statusesIn(await sendRaw(unix(), `${lines.join("\r\n")}\r\n\r\n`));
  const { user } = process.cpuUsage(before);
  await strict.take();
  expect({ statuses, isCheap: user < 250_000 }).toEqual({ statuses: [200], isCheap: true });
});
