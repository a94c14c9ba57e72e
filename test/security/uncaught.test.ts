/** Errors that nobody caught cost the operation in which they were thrown, and never the service. */

import assert from "node:assert";
import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { THROWN, THROWS, THROW_VARIABLE, type ThrowPlan } from "../support/faults/thrower.ts";
import { openTestHome } from "../support/home.ts";
import { openListeners, type CallOutcome } from "../support/hostile/every-listener.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";
import { makeCertificate, type TestCertificate } from "../support/network/certificate.ts";
import { PROGRAM } from "../support/program.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { startServe, type TestServe } from "../support/serve.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";

const DOMAIN = "sandbox.localhost";
const LISTENER = resolve(import.meta.dirname, "../support/faults/thrower.ts");
const RUNNER = [process.execPath, `--import=${LISTENER}`, PROGRAM] as const;

const WAYS = IS_WHOLE_RUN ? THROWS : THROWS.slice(0, 2);

let certificate: TestCertificate;
let folder: TempFolder;
let serve: TestServe;
let dispatcher: Agent;
let sandboxId: string;
let opened: ReturnType<typeof openListeners>;
beforeAll(async () => {
  certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
  folder = await makeTempFolder();
  serve = await start();
  const port = Number(new URL(serve.url).port);
  const socketPath = join(serve.home, "instances/serve/door.sock");
  dispatcher = new Agent({ connect: { socketPath } });
  opened = openListeners({
    socketPath,
    plainPort: undefined,
    tlsPort: port,
    authority: certificate.authority,
    host: DOMAIN,
  });
  [, sandboxId] = await create();
});
afterAll(async () => {
  opened[Symbol.dispose]();
  await call("DELETE", `/sandboxes/${sandboxId}`);
  await dispatcher.destroy();
  await serve[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
  await certificate[Symbol.asyncDispose]();
});

function planPath(): string {
  return join(folder.path, "plan");
}

async function start(): Promise<TestServe> {
  const tls = ["--tls-cert", certificate.certificatePath, "--tls-key", certificate.keyPath];
  const environment = { [THROW_VARIABLE]: planPath() };
  return startServe([...tls, "--pool", "1", "--on-exit", "kill"], { command: RUNNER, environment });
}

async function plan(wanted: ThrowPlan): Promise<void> {
  await rm(planPath() + THROWN, { force: true });
  await writeFile(`${planPath()}.new`, JSON.stringify(wanted));
  await rename(`${planPath()}.new`, planPath());
}

/** A call with the key, by the private listener: the status and the text. */
async function call(method: string, path: string, body?: object): Promise<[number, string]> {
  const reply = await request(`http://localhost${path}`, {
    dispatcher,
    method,
    headers: {
      "x-api-key": serve.apiKey,
      authorization: `Bearer ${serve.apiKey}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: body === undefined ? null : JSON.stringify(body),
  });
  return [reply.statusCode, await reply.body.text()];
}

async function create(): Promise<[number, string]> {
  const [status, text] = await call("POST", "/v2/sandboxes", { templateID: "base" });
  const id = /"sandboxID":"([a-z0-9]+)"/.exec(text)?.[1] ?? "";
  return [status, id];
}

async function enter(name: string, path: string, isUpgrade = false): Promise<CallOutcome> {
  const listener = opened.listeners.find((candidate) => candidate.name === name);
  assert(listener !== undefined);
  const headers = { host: `49983-${sandboxId}.${DOMAIN}` };
  return listener.call({ method: "GET", path, headers, isUpgrade });
}

interface Case {
  readonly moment: ThrowPlan["moment"];
  readonly name: string;
  /** What its line in the log names. */
  readonly op: string;
  /** Makes the moment come; what the client sees of it. */
  readonly provoke: () => Promise<unknown>;
  /** The last one also where the error comes when the client has its answer already. */
  readonly seen: readonly unknown[];
}

const isWhole = true;

async function createAndKill(): Promise<number> {
  const [status, id] = await create();
  if (status === 201) await call("DELETE", `/sandboxes/${id}`);
  return status;
}

/** Its log is followed in the background, which a sandbox that ends soon never sees. */
async function createUntilThrown(): Promise<number> {
  const [status, id] = await create();
  await expect.poll(() => existsSync(planPath() + THROWN)).toBe(true);
  await call("DELETE", `/sandboxes/${id}`);
  return status;
}

const CASES: readonly Case[] = [
  {
    moment: "step",
    name: "kill.intent",
    op: "sandbox.killing",
    provoke: async () => (await call("DELETE", `/sandboxes/${(await create())[1]}`))[0],
    seen: [204],
  },
  {
    moment: "sent",
    name: "thrown-gateway",
    op: "http.request",
    provoke: () => enter("unix", "/health?thrown-gateway"),
    seen: [
      { status: 500, isWhole },
      { status: 204, isWhole },
    ],
  },
  {
    moment: "sent",
    name: "thrown-upgrade",
    op: "http.upgrade",
    provoke: () => enter("unix", "/health?thrown-upgrade", true),
    seen: ["cut", { status: 204, isWhole }],
  },
  {
    moment: "sent",
    name: "thrown-http2",
    op: "http2.stream",
    provoke: () => enter("HTTP/2", "/health?thrown-http2"),
    seen: [
      { status: 502, isWhole },
      { status: 204, isWhole },
    ],
  },
  {
    moment: "header",
    name: "x-accel-buffering",
    op: "http.request",
    provoke: async () => (await call("POST", "/mcp", { jsonrpc: "2.0", id: 1, method: "ping" }))[0],
    seen: [500, 400],
  },
  { moment: "sent", name: "/init", op: "daemon.call", provoke: createAndKill, seen: [500, 201] },
  { moment: "sent", name: "/logs", op: "daemon.call", provoke: createUntilThrown, seen: [201] },
  { moment: "step", name: "pool.frozen", op: "pool.fill", provoke: createAndKill, seen: [201] },
  {
    moment: "received",
    name: "/health?thrown-nowhere",
    op: "process",
    provoke: async () => (await call("GET", "/health?thrown-nowhere"))[0],
    seen: [204],
  },
];

async function countSandboxes(): Promise<number> {
  const [, text] = await call("GET", "/sandboxes");
  return text.split('"sandboxID"').length - 1;
}

/** The names of the operations of which the log says that an error was not caught in them. */
function uncaughtIn(log: string, way: string): string[] {
  const lines = log.split("\n").filter((line) => line.includes(`"msg":"uncaught error"`));
  const entries = lines.map((line) => z.looseObject({ op: z.string() }).parse(JSON.parse(line)));
  return entries.flatMap((entry) => {
    const { stack = "" } = z.looseObject({ stack: z.string() }).partial().parse(entry["err"]);
    return stack.includes(`thrown by ${way}`) ? [entry.op] : [];
  });
}

test("E41 an error that nobody caught fails its own operation, and the service goes on", async (context) => {
  const wrong: unknown[] = [];
  for (const { moment, name, op, provoke, seen } of CASES) {
    for (const way of WAYS) {
      const before = serve.program.stderr().length;
      await plan({ moment, name, way });
      const outcome = await provoke();
      const logged = () => uncaughtIn(serve.program.stderr().slice(before), way);
      await expect.poll(() => logged().length, { message: `${name} ${way}` }).toBe(1);
      const isSeen = seen.some((one) => JSON.stringify(one) === JSON.stringify(outcome));
      const after = [
        (await call("GET", "/health"))[0],
        (await call("GET", "/sandboxes"))[0],
        await enter("unix", "/health"),
        await enter("HTTP/2", "/health"),
      ];
      const alive = { status: 204, isWhole };
      const isAlive = JSON.stringify(after) === JSON.stringify([204, 200, alive, alive]);
      if (!isSeen || !isAlive || logged()[0] !== op)
        wrong.push({ name, way, outcome, ops: logged(), after });
    }
  }
  tellCells(context, CASES.length * WAYS.length);
  expect(wrong).toEqual([]);
  expect(await createAndKill()).toBe(201);
  // What was half done has come to its end.
  await expect.poll(countSandboxes).toBe(1);
});

test("E41 a server in which errors go on and on ends in an orderly way, with the code 70", async () => {
  await using server = await start();
  await plan({ moment: "received", name: "/health", way: "timer", times: 150 });
  const other = new Agent({
    connect: { socketPath: join(server.home, "instances/serve/door.sock") },
  });
  await request("http://localhost/health", { dispatcher: other });
  await other.destroy();
  expect(await server.program.exited()).toBe(70);
  const log = server.program.stderr();
  expect(uncaughtIn(log, "timer").length).toBe(100);
  expect(log).toContain("too many uncaught errors: ending");
  expect(log).toContain('"msg":"stopping"');
});

test("E41 an uncaught error in a tool call fails that call, and the stdio server goes on", async (context) => {
  await using home = await openTestHome();
  const environment = { [THROW_VARIABLE]: planPath() };
  const flags = ["--home", home.path, "--pool", "0"];
  await using host = await startMcpClient(flags, environment, RUNNER);
  const { fields } = await host.call("create_sandbox", {});
  const file = { sandbox_id: String(fields["sandbox_id"]), path: "/etc/passwd" };
  // Errors of the other ways may come behind the reply.
  const ways = ["tick", "rejection"] as const;
  for (const way of ways) {
    await plan({ moment: "sent", name: "/files", way });
    expect(await host.call("read_file", file)).toMatchObject({ isError: true });
    expect((await host.call("read_file", file)).text).toContain("root:");
  }
  tellCells(context, ways.length);
});
