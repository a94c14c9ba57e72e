/** Hostile bytes on the doors of the service, and hostile answers from inside a sandbox. */

import { createClient } from "@connectrpc/connect";
import { Agent } from "undici";
import { expect, test } from "vitest";
import { createRpcTransport } from "../../../src/client/rpc.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { Process } from "../../../src/gen/process/process_pb.ts";
import { collect } from "../../support/daemon/collect.ts";
import {
  deliver,
  fuzz,
  split,
  type FuzzInput,
  type FuzzTarget,
} from "../../support/hostile/fuzz.ts";
import { startHostileServer } from "../../support/hostile/hostile-server.ts";
import { hostileJson } from "../../support/hostile/hostile.ts";
import { mutate, type Random } from "../../support/random.ts";
import { envelope } from "../../support/raw-call.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const SANDBOX = "i00000000000000000000";
const LONG_WAIT_MS = 2_000;

function toTarget(service: TestService): FuzzTarget {
  return {
    pid: process.pid,
    send: async (input) => deliver(service.embedded.socketPath, input),
    async checkHealth() {
      const reply = await service.call({ path: "/sandboxes" });
      if (reply.status !== 200) throw new Error(`the list of sandboxes answered ${reply.status}`);
    },
  };
}

/** Requests for every destination, with bytes changed anywhere. */
function requests(random: Random): FuzzInput {
  const hosts = [
    "localhost",
    "[::1]:80",
    `49983-${SANDBOX}.sandbox.localhost`,
    "sandbox.localhost",
  ];
  const host = random.pick(hosts);
  const heads = [
    `GET /health HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET /files?path=x&signature=v1_x&signature_expiration=1 HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: ${host}\r\nE2b-Sandbox-Id: ${SANDBOX}\r\nE2b-Sandbox-Port: 80\r\n\r\n`,
    `GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    `POST /init HTTP/1.1\r\nHost: 49983-${SANDBOX}.sandbox.localhost\r\nContent-Length: 2\r\n\r\n{}`,
    `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}`,
    `GET /v2/sandboxes?limit=1&state=running HTTP/1.1\r\nHost: ${host}\r\nX-API-Key: e2b_x\r\n\r\n`,
    `POST /sandboxes HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  ];
  const bytes = mutate(random, Buffer.from(random.pick(heads), "latin1"));
  return { pieces: split(random, bytes), ending: random.pick(["open", "open", "end", "cut"]) };
}

/** Hosts alone, which decide who answers. */
function hostNames(random: Random): FuzzInput {
  const known = [`8080-${SANDBOX}.sandbox.localhost:80`, "127.0.0.1:1", "[::ffff:1.2.3.4]", "a.b"];
  const host = mutate(random, Buffer.from(random.pick(known))).toString("latin1");
  const second = random.once(4) ? `Host: ${host}\r\n` : "";
  const target = random.pick(["/", "/health", "http://localhost/", "*", "//", "/files"]);
  const text = `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${second}Connection: close\r\n\r\n`;
  return { pieces: [Buffer.from(text, "latin1")], ending: "open" };
}

test("raw HTTP on a door", async () => {
  await using service = await startTestService();
  expect(await fuzz(toTarget(service), requests)).toBeGreaterThan(10);
});

test("hosts", async () => {
  await using service = await startTestService();
  expect(await fuzz(toTarget(service), hostNames)).toBeGreaterThan(10);
});

test("bodies of the control API", async () => {
  // One sandbox is all there can be, so that a body which is right by chance makes no other.
  await using service = await startTestService({ maxSandboxes: 1 });
  const { sandboxID } = await service.create();
  const routes = [
    "POST /sandboxes",
    "POST /v2/sandboxes",
    `POST /sandboxes/${sandboxID}/timeout`,
    `POST /sandboxes/${sandboxID}/snapshots`,
    `PUT /sandboxes/${sandboxID}/network`,
    `POST /sandboxes/${SANDBOX}/connect`,
  ];
  const bodies = [
    { templateID: "base", metadata: { a: "b" }, envVars: { A: "b" }, timeout: 100 },
    { templateID: "base", autoPause: true, secure: true, network: { allowOut: ["1.1.1.1/32"] } },
    { timeout: 300 },
    { name: "x" },
  ];
  const count = await fuzz(toTarget(service), (random) => {
    const body = hostileJson(random, bodies);
    const head = [
      `${random.pick(routes)} HTTP/1.1`,
      "Host: localhost",
      `X-API-Key: ${service.embedded.apiKey}`,
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
      "Connection: close",
    ];
    const pieces = [Buffer.from(`${head.join("\r\n")}\r\n\r\n`), ...split(random, body)];
    return { pieces, ending: "open" };
  });
  expect(count).toBeGreaterThan(10);
});

/** What a service in a sandbox may answer, well-formed or not. */
function answers(random: Random): FuzzInput {
  const event = envelope('{"event":{"data":{"stdout":"eA=="}}}');
  const end = envelope("{}", { flags: 2 });
  const bad = envelope("[".repeat(100_000), { announced: random.pick([100_000, 0xffff_ffff]) });
  const head = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n";
  const known = [
    Buffer.concat([Buffer.from(`${head}\r\n`), event, end]),
    Buffer.concat([Buffer.from(`${head}\r\n`), event, bad, end]),
    Buffer.from(
      `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n\0\0\0\0\x02\r\n2\r\n{}\r\nfffffffff\r\n`,
    ),
    Buffer.from("HTTP/1.1 100 Continue\r\n\r\n".repeat(1 + random.below(3_000))),
    Buffer.from("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nx"),
    Buffer.from(`HTTP/1.1 200 OK\r\n${"A: b\r\n".repeat(random.below(10_000))}\r\n`),
    Buffer.from('HTTP/1.1 401 No\r\nContent-Length: 30\r\n\r\n{"code":401,"message":"x"}'),
    Buffer.from("HTTP/1.1 204 None\r\nContent-Length: 99\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
  ];
  const bytes = random.pick(known);
  const pieces = split(random, random.once(2) ? bytes : mutate(random, bytes));
  return { pieces, ending: random.pick(["end", "open"]) };
}

test("answers of a hostile service, through the gateway", async () => {
  await using hostile = await startHostileServer();
  await using service = await startTestService();
  const { sandboxID } = await service.create();
  const ask = [
    `GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: ${sandboxID}`,
    `E2b-Sandbox-Port: ${hostile.port}`,
  ].join("\r\n");
  const target = toTarget(service);
  const count = await fuzz(
    {
      ...target,
      async send(input, random) {
        hostile.answer(input.pieces, { staysOpen: input.ending === "open" });
        const upgrade = random.once(4) ? "\r\nConnection: Upgrade\r\nUpgrade: x" : "";
        await deliver(service.embedded.socketPath, {
          pieces: [Buffer.from(`${ask}${upgrade}\r\n\r\n`)],
          ending: "open",
        });
      },
    },
    answers,
  );
  expect(count).toBeGreaterThan(10);
});

test.for([
  { form: "JSON", isBinary: false },
  { form: "binary", isBinary: true },
])("answers of a hostile daemon, to our own client, $form", async ({ isBinary }) => {
  await using hostile = await startHostileServer();
  const dispatcher = new Agent();
  const transport = createRpcTransport({
    connection: { dispatcher, clock: createSystemClock() },
    baseUrl: `http://127.0.0.1:${hostile.port}`,
    headers: () => ({}),
    isBinary,
  });
  const client = createClient(Process, transport);
  const count = await fuzz(
    {
      pid: process.pid,
      async send(input) {
        hostile.answer(input.pieces, { staysOpen: false });
        const signal = AbortSignal.timeout(LONG_WAIT_MS);
        // Every failure of the call is an answer; a hang would be one more, told by the signal.
        await collect(client.start({ process: { cmd: "true" } }, { signal })).catch(
          () => undefined,
        );
        if (signal.aborted) throw new Error("the call hung");
      },
      checkHealth: async () => undefined,
    },
    answers,
  );
  await dispatcher.destroy();
  expect(count).toBeGreaterThan(10);
});
