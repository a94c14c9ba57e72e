/**
 * R18: a daemon that root inside has stopped by a signal holds no call beyond the call's own time limit
 * plus 2 s, and keeps neither its service nor the end of its sandbox waiting.
 */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sandboxSchema } from "../../../src/wire/control.ts";
import { takeCensus } from "../../support/census.ts";
import { startRange, type AttackRange } from "../../support/hostile/attack-range.ts";
import { startProgram } from "../../support/program.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { envelope } from "../../support/raw-call.ts";
import { tellCells } from "../../support/run/cells.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const CASES = IS_WHOLE_RUN ? 520 : 60;
/** Below what one sandbox and the pool of a client take. */
const AT_ONCE = 65;
/** Of a call that names none: 2 s of patience and 8 s for one question. */
const OWN_LIMIT_MS = 10_000;
const GRACE_MS = 2_000;
const DAEMON_PORT = "49983";
/** Of process 1, whose command line has the same words, the kernel keeps it away. */
const STOP = String.raw`kill -STOP $(pgrep -f "[s]tart\.cjs")`;

/** A call: where it goes, how long it may take by itself, and what it sends. */
interface Call {
  readonly name: string;
  readonly limitMs: number;
  run(place: Place): Promise<string>;
}

interface Place {
  readonly range: AttackRange;
  readonly sandbox: Sandbox;
  readonly token: string;
  readonly host: Client;
}

interface GatewayCall {
  readonly path: string;
  readonly method?: string;
  readonly port?: string;
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The status, or `cut` for a reply that broke off. */
async function enter(place: Place, call: GatewayCall): Promise<string> {
  const { method = "GET", port = DAEMON_PORT, headers = {}, body } = call;
  try {
    const reply = await fetch(`${place.range.serve.url}${call.path}`, {
      method,
      headers: {
        "e2b-sandbox-id": place.sandbox.sandboxId,
        "e2b-sandbox-port": port,
        "x-access-token": place.token,
        ...headers,
      },
      ...(body !== undefined && { body: Buffer.from(body) }),
    });
    await reply.arrayBuffer();
    return String(reply.status);
  } catch {
    return "cut";
  }
}

const UNARY = { "content-type": "application/json", "connect-protocol-version": "1" };
const STREAM = { "content-type": "application/connect+json", "connect-protocol-version": "1" };
const START = envelope(Buffer.from(JSON.stringify({ process: { cmd: "sleep", args: ["60"] } })));

/** RPCs with a time limit of their own or without, and plain HTTP to the daemon and to a port. */
function gatewayCall(random: Random): Call {
  const limitMs = random.once(2) ? 500 + random.below(4_000) : undefined;
  const limit = limitMs === undefined ? {} : { "connect-timeout-ms": String(limitMs) };
  const rpc = (path: string, body: string | Uint8Array, headers: Record<string, string>) => ({
    path,
    method: "POST",
    body,
    headers: { ...headers, ...limit },
  });
  const limited = random.pick<GatewayCall>([
    rpc("/filesystem.Filesystem/Stat", '{"path":"/"}', UNARY),
    rpc("/filesystem.Filesystem/ListDir", '{"path":"/"}', UNARY),
    rpc("/process.Process/List", "{}", UNARY),
    rpc("/process.Process/Start", START, STREAM),
    rpc("/filesystem.Filesystem/WatchDir", envelope(Buffer.from('{"path":"/"}')), STREAM),
  ]);
  const plain = random.pick<GatewayCall>([
    { path: "/health" },
    { path: "/envs" },
    { path: "/files?path=/etc/passwd&username=root" },
    { path: "/files?path=/tmp/x&username=root", method: "POST", body: "x".repeat(100_000) },
    { path: "/files/compose", method: "POST", body: "{}" },
    { path: "/", port: "8080" },
  ]);
  const call = random.once(3) ? plain : limited;
  return {
    name: `${call.method ?? "GET"} ${call.path} ${call === limited ? limitMs : ""}`,
    limitMs: call === limited ? Math.min(limitMs ?? OWN_LIMIT_MS, OWN_LIMIT_MS) : OWN_LIMIT_MS,
    run: async (place) => enter(place, call),
  };
}

/** Tools that ask the daemon; one of them has a wait of its own, which is shorter. */
function toolCall(random: Random): Call {
  const [name, input] = random.pick<readonly [string, Readonly<Record<string, unknown>>]>([
    ["run_process", { cmd: "true", wait_seconds: 1 }],
    ["run_process", { cmd: "true", wait_seconds: 5, timeout_seconds: 2 }],
    ["read_file", { path: "/etc/passwd" }],
    ["write_file", { path: "/tmp/y", content: "y" }],
    ["list_directory", { path: "/" }],
    ["stat_path", { path: "/" }],
    ["list_processes", {}],
    ["make_directory", { path: "/tmp/d" }],
    ["send_signal", { process_id: "p_1" }],
    ["get_process_output", { process_id: "p_1", wait_seconds: 1 }],
    ["watch_path", { path: "/", wait_seconds: 1 }],
  ]);
  return {
    name: `tool ${name}`,
    limitMs: OWN_LIMIT_MS,
    async run({ host, sandbox }) {
      const words = { sandbox_id: sandbox.sandboxId, ...input };
      const reply = await host.callTool({ name, arguments: words }, undefined, {
        timeout: 120_000,
      });
      return reply.isError === true ? "error" : JSON.stringify(reply.content);
    },
  };
}

/** The control API does not need the daemon. */
function controlCall(random: Random): Call {
  const [method, path, body] = random.pick([
    ["GET", "", undefined],
    ["GET", "/metrics", undefined],
    ["GET", "/logs", undefined],
    ["POST", "/timeout", '{"timeout":300}'],
    ["POST", "/refreshes", '{"duration":300}'],
  ] as const);
  return {
    name: `${method} ${path}`,
    limitMs: 0,
    async run({ range, sandbox }) {
      const reply = await fetch(`${range.serve.url}/sandboxes/${sandbox.sandboxId}${path}`, {
        method,
        headers: { "x-api-key": range.serve.apiKey, "content-type": "application/json" },
        ...(body !== undefined && { body }),
      });
      await reply.arrayBuffer();
      return reply.ok ? "ok" : String(reply.status);
    },
  };
}

const EXPECTED = new Set(["504", "cut", "error", "ok"]);

describe.each(attackPlaces())("on $name", (target) => {
  let range: AttackRange;

  beforeAll(async () => {
    range = await startRange(target, ["--toolsets", "all"]);
  });

  afterAll(async () => range[Symbol.asyncDispose]());

  /** Resolves once the daemon has been stopped by a program that root started inside. */
  const stop = async (sandbox: Sandbox) => {
    await sandbox.commands.run(`setsid sh -c 'sleep 0.2; ${STOP}' >/dev/null 2>&1 &`, {
      user: "root",
    });
    await expect
      .poll(async () => isSilent(range, sandbox), { timeout: 20_000, interval: 50 })
      .toBe(true);
  };

  test(
    `E52 no call waits for a stopped daemon beyond its time limit, seed ${SEED}`,
    { timeout: 300_000 },
    async (context) => {
      const random = createRandom(SEED);
      const sandbox = await range.createSandbox();
      const token = await tokenOf(range, sandbox);
      const host = await connectHost(range);
      await host.callTool({
        name: "stat_path",
        arguments: { sandbox_id: sandbox.sandboxId, path: "/" },
      });
      await stop(sandbox);
      const place: Place = { range, sandbox, token, host };
      const faults: string[] = [];
      for (let done = 0; done < CASES; done += AT_ONCE) {
        const calls = Array.from({ length: Math.min(AT_ONCE, CASES - done) }, () =>
          random.pick([gatewayCall, gatewayCall, toolCall, controlCall])(random),
        );
        const outcomes = calls.map(async (call) => {
          const startedMs = performance.now();
          const outcome = await call.run(place);
          const tookMs = performance.now() - startedMs;
          if (tookMs > call.limitMs + GRACE_MS || !EXPECTED.has(outcome)) {
            faults.push(`${call.name}: ${outcome} after ${Math.round(tookMs)} ms`);
          }
        });
        await Promise.all(outcomes);
      }
      expect(faults).toEqual([]);
      await host.close();
      await range.check();
      tellCells(context, CASES);
    },
  );

  test("E52 a stopped daemon goes on, and its sandbox pauses, resumes and ends", async () => {
    const sandbox = await range.createSandbox();
    const going = sandbox.commands.run("sleep 1; echo went on", { timeoutMs: 60_000 });
    const script = `${STOP}; sleep 1; ${STOP.replace("STOP", "CONT")}`;
    await sandbox.commands
      .run(`setsid sh -c '${script}' >/dev/null 2>&1 & sleep 0.1`, { user: "root" })
      .catch(() => undefined);
    expect((await going).stdout).toBe("went on\n");
    await stop(sandbox);
    const startedMs = performance.now();
    await sandbox.pause();
    // Its memory holds the stopped daemon: only its files can be resumed.
    await expect(sandbox.connect()).rejects.toThrow(/409/);
    const { url, apiKey } = range.serve;
    const resumed = await fetch(`${url}/sandboxes/${sandbox.sandboxId}/connect`, {
      method: "POST",
      headers: { "x-api-key": apiKey, "content-type": "application/json" },
      body: JSON.stringify({ timeout: 60, memory: false }),
    });
    expect(resumed.status).toBe(201);
    await sandbox.createSnapshot();
    await sandbox.kill();
    expect(performance.now() - startedMs).toBeLessThan(OWN_LIMIT_MS + GRACE_MS);
  });
});

test("E52 a service ends beside a stopped daemon, and gc takes its sandbox away", async () => {
  await using serve = await startServe(["--pool", "0"]);
  const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const sandbox = await Sandbox.create("base", options);
  await sandbox.commands.run(`setsid sh -c 'sleep 0.2; ${STOP}' >/dev/null 2>&1 &`, {
    user: "root",
  });
  await expect
    .poll(async () => isSilent({ serve }, sandbox), { timeout: 20_000, interval: 50 })
    .toBe(true);
  const startedMs = performance.now();
  await serve.program[Symbol.asyncDispose]();
  expect(performance.now() - startedMs).toBeLessThan(OWN_LIMIT_MS + GRACE_MS);
  await using gc = startProgram(["gc", "--home", serve.home]);
  expect(await gc.exited()).toBe(0);
  const { processes, mounts, idClaims } = await takeCensus(serve.home);
  expect({ processes, mounts, idClaims }).toEqual({ processes: [], mounts: [], idClaims: [] });
});

async function isSilent(
  range: { readonly serve: Pick<TestServe, "url"> },
  { sandboxId }: Sandbox,
): Promise<boolean> {
  const headers = { "e2b-sandbox-id": sandboxId, "e2b-sandbox-port": DAEMON_PORT };
  try {
    await fetch(`${range.serve.url}/health`, { headers, signal: AbortSignal.timeout(300) });
    return false;
  } catch {
    return true;
  }
}

async function tokenOf({ serve }: AttackRange, { sandboxId }: Sandbox): Promise<string> {
  const reply = await fetch(`${serve.url}/sandboxes/${sandboxId}`, {
    headers: { "x-api-key": serve.apiKey },
  });
  return String(sandboxSchema.parse(await reply.json()).envdAccessToken);
}

async function connectHost({ serve }: AttackRange): Promise<Client> {
  const client = new Client({ name: "test-client", version: "1.0.0" });
  const url = new URL(`${serve.url}/mcp`);
  const requestInit = { headers: { authorization: `Bearer ${serve.apiKey}` } };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  return client;
}
