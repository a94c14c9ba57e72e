/** The one port of a daemon in a Pod, as programs inside and neighbours reach it. */

import assert from "node:assert";
import { createPublicKey, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { podSchema } from "../../../src/cluster/api/objects.ts";
import { toLateFault } from "../../../src/cluster/pods/boot-pod.ts";
import { createPodDialer } from "../../../src/cluster/pods/dial.ts";
import { deriveSecrets } from "../../../src/cluster/seed.ts";
import { createPodListener, listenAddress } from "../../../src/envd/pod-listener.ts";
import { makePass, type PodTarget } from "../../../src/wire/pod-listener.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

const POD = "i0";
const { passKey } = deriveSecrets(randomBytes(32));
const strangeKey = deriveSecrets(randomBytes(32)).passKey;
const settings = { isTold: false };
const answering = (text: string) => createServer((_request, response) => response.end(text));
const listener = createPodListener({
  identity: { podName: POD, key: createPublicKey(passKey), keepsBaseline: false },
  publicServer: answering("public"),
  controlServer: answering("control"),
  settings,
});
const countConnections = promisify(listener.getConnections.bind(listener));
let port = 0;

beforeAll(async () => {
  port = await listenOnLoopback(listener);
});
afterAll(() => {
  listener.close();
  listener.closeAllConnections();
});

/** What comes back for these bytes until the connection ends or rests. */
async function send(text: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  socket.write(text);
  socket.setTimeout(1_000, () => socket.destroy());
  let reply = "";
  for await (const part of socket) {
    reply += String(part);
    if (reply.includes("public") || reply.includes("control")) break;
  }
  socket.destroy();
  return reply;
}

interface Entry {
  readonly target?: string;
  readonly pass?: string;
}

async function enter({ target = "/control", pass }: Entry): Promise<string> {
  const header = pass === undefined ? "" : `x-sandbox-mcp-pass: ${pass}\r\n`;
  const head = `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: sandbox-mcp\r\n`;
  return send(`${head}${header}\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n`);
}

function passFor(target: PodTarget, more: { atMs?: number; podName?: string } = {}): string {
  const nonce = randomBytes(16).toString("hex");
  return makePass({ podName: POD, target, atMs: Date.now(), nonce, ...more }, passKey);
}

test("a pass leads to its server, and what follows in one piece is served", async () => {
  expect(await enter({ pass: passFor("/control") })).toMatch(/^HTTP\/1.1 101 [^]*control/);
});

test("before the daemon was told, nothing public is served", async () => {
  settings.isTold = false;
  expect(await enter({ target: "/public", pass: passFor("/public") })).toMatch(/^HTTP\/1.1 409 /);
  settings.isTold = true;
  expect(await enter({ target: "/public", pass: passFor("/public") })).toMatch(/ 101 [^]*public/);
});

test("a daemon is reached at an address of either family, as its Pod has it", async () => {
  const server = createServer((_request, response) => response.end());
  server.listen({ ...listenAddress(), port: 0 });
  await once(server, "listening");
  const bound = server.address();
  assert(typeof bound === "object" && bound !== null);
  // A machine may have no IPv6.
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  const hosts = new Set(own.filter(({ internal }) => internal).map(({ address }) => address));
  expect(hosts).toContain("127.0.0.1");
  for (const host of hosts) {
    const socket = connect({ host, port: bound.port });
    await once(socket, "connect");
    socket.destroy();
  }
  server.close();
});

test("a pass counts once", async () => {
  const pass = passFor("/control");
  expect(await enter({ pass })).toMatch(/ 101 /);
  expect(await enter({ pass })).toMatch(/^HTTP\/1.1 403 /);
});

test("a refused connection ends, whatever its client sends or keeps open", async () => {
  const head =
    "GET /control HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: sandbox-mcp\r\n\r\n";
  const client = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  client.write(head);
  await once(client, "data");
  client.write("more");
  await expect.poll(async () => countConnections()).toBe(0);
  client.destroy();
});

test.for([
  { name: "no pass", entry: {}, status: 401 },
  { name: "an empty pass", entry: { pass: "" }, status: 401 },
  { name: "another target", entry: { pass: passFor("/public") }, status: 401 },
  {
    name: "a target that is none",
    entry: { target: "/init", pass: passFor("/control") },
    status: 401,
  },
  { name: "a query", entry: { target: "/control?a", pass: passFor("/control") }, status: 401 },
  { name: "another Pod", entry: { pass: passFor("/control", { podName: "i1" }) }, status: 401 },
  {
    name: "a strange key",
    entry: {
      pass: makePass(
        { podName: POD, target: "/control", atMs: Date.now(), nonce: "a".repeat(32) },
        strangeKey,
      ),
    },
    status: 401,
  },
  {
    name: "an old pass",
    entry: { pass: passFor("/control", { atMs: Date.now() - 301_000 }) },
    status: 403,
  },
  {
    name: "one of the future",
    entry: { pass: passFor("/control", { atMs: Date.now() + 360_000 }) },
    status: 403,
  },
])("$name → $status", async ({ entry, status }) => {
  const reply = await enter(entry);
  expect(reply).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(reply).not.toMatch(/public|control/);
});

test.for([
  { name: "a plain request", text: "GET /control HTTP/1.1\r\nHost: x\r\n\r\n" },
  { name: "an init", text: "POST /init HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" },
  {
    name: "two requests",
    text: "GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
  },
])("$name is refused, and the connection ends", async ({ text }) => {
  const reply = await send(text);
  expect(reply).toMatch(/^HTTP\/1.1 401 /);
  expect(reply).not.toMatch(/public|control/);
});

test.for([
  { status: 401, reason: "answered 401: the Secret sandbox-mcp-seed is not that" },
  { status: 403, reason: "answered 403: the clock of its node is minutes from" },
])("a create whose front the Pod refuses with $status says why", async ({ status, reason }) => {
  const server = createServer((_request, response) => void response.writeHead(status).end());
  const refusing = await listenOnLoopback(server);
  const address = { podName: POD, host: "127.0.0.1", port: refusing, passKey };
  const dialer = createPodDialer(address, async () => undefined);
  const fault: unknown = await dialer
    .dialControl(AbortSignal.timeout(10_000))
    .catch((error: unknown) => error);
  server.close();
  const metadata = { name: POD, uid: "uid", resourceVersion: "1" };
  const pod = podSchema.parse({ metadata, status: { phase: "Running", podIP: "127.0.0.1" } });
  const items = new Map([[POD, pod]]);
  expect(toLateFault({ pods: { items } }, POD, fault).message).toContain(
    `the Pod runs, and its daemon was not reached in time: the Pod of the sandbox ${reason}`,
  );
});
