/**
 * What a program in a sandbox answers can cost its own request alone: through each listener it is a
 * reply or a 502, and the service goes on. FUZZ_SEED repeats a run.
 */

import assert from "node:assert";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import {
  openListeners,
  type TestListener,
  type CallOutcome,
} from "../support/hostile/every-listener.ts";
import {
  eachHostileReply,
  hostileReply,
  type HostileReply,
} from "../support/hostile/hostile-replies.ts";
import { startReplyServer } from "../support/hostile/reply-server.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { createRandom, type Random } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DOMAIN = "sandbox.localhost";
const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
/** Besides every reply by itself. */
const RANDOM_CASES = IS_WHOLE_RUN ? 4_000 : 100;
const LANES = 8;

/** What HTTP/2 can carry and HTTP/1.1 cannot, among other things. */
const METHODS = ["GET", "HEAD", "CONNECT", "PRI", "A B", "get", "G\u00e4T", "", "X".repeat(5_000)];
const PATHS = [
  "/",
  "",
  "*",
  "no/slash",
  "/a b",
  "/\u00e4",
  "/\u2028",
  "/a\tb",
  "/\u007f",
  "//",
  "/?\u0000",
];
const HOSTS = ["", "a b", "\u00e4", "a\tb", "[", `x.${DOMAIN}`, "a:b:c"];
const REQUEST_HEADERS: readonly Readonly<Record<string, string>>[] = [
  {},
  { __proto__x: "a", constructor: "b" },
  { "x-a": "\u0001" },
  { "x-a": "\u00e4\u2028" },
  { "content-length": "5" },
  { "content-length": "-1" },
  { te: "trailers", expect: "100-continue" },
  { cookie: "a=b; c" },
  { "e2b-sandbox-id": "\u00e4", "e2b-sandbox-port": "x" },
  { "x-long": "x".repeat(15_000) },
];
const HTTP2_REQUESTS = IS_WHOLE_RUN ? 2_000 : 200;

let certificate: TestCertificate;
let service: TestService;
let sandbox: SandboxBody;
/** What would have ended the service, were it a process of its own. */
const uncaught: string[] = [];
const note = (error: Error) => void uncaught.push(String(error.stack));
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  const tls = certificate.identity;
  const host = "127.0.0.1";
  service = await startTestService({
    tcp: [
      { host, port: 0 },
      { host, port: 0, tls },
    ],
  });
  sandbox = await service.create();
  process.on("uncaughtExceptionMonitor", note);
});
afterAll(async () => {
  process.off("uncaughtExceptionMonitor", note);
  await service[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

function open(): ReturnType<typeof openListeners> {
  const [plainPort = 0, tlsPort = 0] = service.embedded.ports;
  const { authority } = certificate;
  const { socketPath } = service.embedded;
  return openListeners({ socketPath, plainPort, tlsPort, authority, host: DOMAIN });
}

interface Case {
  readonly reply: HostileReply;
  readonly listener: TestListener;
  readonly method: string;
  readonly isUpgrade: boolean;
}

function* casesOf(listeners: readonly TestListener[]): Generator<Case> {
  for (const reply of eachHostileReply()) {
    for (const listener of listeners) yield { reply, listener, method: "GET", isUpgrade: false };
  }
  for (let number = 0; number < RANDOM_CASES; number += 1) yield randomCase(listeners, number);
}

function randomCase(listeners: readonly TestListener[], number: number): Case {
  const random: Random = createRandom(SEED + number);
  const reply = hostileReply(random);
  const listener = random.pick(listeners);
  const method = random.pick(["GET", "GET", "HEAD", "POST"] as const);
  return { reply, listener, method, isUpgrade: listener.hasUpgrades && random.once(3) };
}

/** Bodies that end before they said, and that a client must not take for whole. */
const CUT_REPLIES = [
  "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\nhello",
];

/** Whether it is seen that the reply is not whole. */
function isCut(outcome: CallOutcome): boolean {
  if (typeof outcome === "string") return false;
  return outcome.status === 502 || (outcome.status === 200 && !outcome.isWhole);
}

/** Whether a client may be told this: a status that HTTP has, and of the service's own only 502. */
function isRight(outcome: CallOutcome, { reply, isUpgrade }: Case): boolean {
  if (outcome === "silent") return reply.ending === "open";
  if (outcome === "cut" || outcome === "unreadable") return false;
  const { status } = outcome;
  if (status === 101) return isUpgrade;
  return (status >= 200 && status < 500) || status === 502 || status === 599;
}

function describeCase({ reply, listener, method, isUpgrade }: Case): string {
  const text = Buffer.concat(reply.pieces).toString("latin1").slice(0, 300);
  const kind = `${reply.isEarly ? "early " : ""}${isUpgrade ? "upgrade " : ""}${reply.ending}`;
  return `${listener.name} ${method} ${kind} ${JSON.stringify(text)}`;
}

test("E41 no reply of a program inside costs more than its own request, at any listener", async (context) => {
  using opened = open();
  const cases = casesOf(opened.listeners);
  const wrong: string[] = [];
  let count = 0;
  async function runLane(): Promise<void> {
    await using server = await startReplyServer();
    const headers = { host: `${server.port}-${sandbox.sandboxID}.${DOMAIN}` };
    for (const next of cases) {
      const { reply, listener, method, isUpgrade } = next;
      server.answer((asked) => ((asked === "") === reply.isEarly ? reply : undefined));
      const mayBeSilent = reply.ending === "open";
      const outcome = await listener.call({ method, path: "/", headers, isUpgrade, mayBeSilent });
      count += 1;
      if (!isRight(outcome, next)) wrong.push(`${JSON.stringify(outcome)} ${describeCase(next)}`);
      // The same listener serves what comes next.
      const health = await listener.call({
        method: "GET",
        path: "/health",
        headers: { host: DOMAIN },
      });
      const after = typeof health === "object" ? health.status : health;
      if (after !== 204) wrong.push(`then ${after}: ${describeCase(next)}`);
    }
  }
  await Promise.all(Array.from({ length: LANES }, runLane));
  tellCells(context, count);
  expect(uncaught, `FUZZ_SEED=${SEED}`).toEqual([]);
  expect(wrong, `FUZZ_SEED=${SEED}`).toEqual([]);
  expect(count).toBeGreaterThanOrEqual(500);
});

test("E41 a reply that breaks off is whole at no listener", async (context) => {
  using opened = open();
  await using server = await startReplyServer();
  const headers = { host: `${server.port}-${sandbox.sandboxID}.${DOMAIN}` };
  const seen: CallOutcome[] = [];
  for (const text of CUT_REPLIES) {
    for (const ending of ["end", "reset"] as const) {
      server.answer((asked) =>
        asked === "" ? undefined : { pieces: [Buffer.from(text)], isEarly: false, ending },
      );
      for (const listener of opened.listeners)
        seen.push(await listener.call({ method: "GET", path: "/", headers }));
    }
  }
  tellCells(context, seen.length);
  expect(seen.filter((outcome) => !isCut(outcome))).toEqual([]);
});

test("E41 no request over HTTP/2 costs more than its own stream", async (context) => {
  using opened = open();
  const listener = opened.listeners.find(({ hasUpgrades }) => !hasUpgrades);
  assert(listener !== undefined);
  const random = createRandom(SEED);
  const host = `api.${DOMAIN}`;
  const wrong: string[] = [];
  for (let count = 0; count < HTTP2_REQUESTS; count += 1) {
    const wanted = {
      method: random.pick(METHODS),
      path: random.pick(PATHS),
      headers: { host: random.pick([host, ...HOSTS]), ...random.pick(REQUEST_HEADERS) },
    };
    const outcome = await listener.call(wanted).catch(() => "refused by the client" as const);
    const health = await listener.call({ method: "GET", path: "/health", headers: { host } });
    const isServed = typeof health === "object" && health.status === 204 && outcome !== "silent";
    if (!isServed) wrong.push(`${JSON.stringify([outcome, health])} ${JSON.stringify(wanted)}`);
  }
  tellCells(context, HTTP2_REQUESTS);
  expect(uncaught, `FUZZ_SEED=${SEED}`).toEqual([]);
  expect(wrong, `FUZZ_SEED=${SEED}`).toEqual([]);
});
