/** Running processes through MCP: `true`, the first byte, and 100 MB of output. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { startMcpClient, type TestClient } from "../test/support/mcp/mcp-client.ts";
import type { BenchContext } from "./context.ts";
import {
  atLeast,
  atMost,
  compare,
  timed,
  type Contestant,
  type MissingPeer,
  type Row,
} from "./figure.ts";
import { createSandbox, killSandbox, openPeer, runIn, type PeerHost } from "./hosts.ts";
import { privateProcesses, statusBytes } from "./memory.ts";
import type { Found, Peers } from "./peers.ts";

const RUNS = { samples: 50, budgetMs: 25_000 };
const FIRST = { samples: 50, budgetMs: 5_000 };
const STREAMS = { samples: 5, budgetMs: 20_000 };
const STREAM_BYTES = 100_000_000;
const MIB = 1024 * 1024;
const MAX_GROWTH_MIB = 32;

export async function measureProcesses(context: BenchContext): Promise<Row[]> {
  const { home } = context;
  await using client = await startMcpClient(["--home", home, "--pool", "0"]);
  const sandbox = await createSandbox(client);
  await using stack = new AsyncDisposableStack();
  const runTrue = async () => timed(async () => runIn(client, sandbox, ["true"]));
  try {
    const run = await compare({
      ...RUNS,
      id: "run",
      name: "run_process of true",
      ours: runTrue,
      floor: {
        name: "plain spawn",
        run: async () => timed(async () => once(spawn("true"), "exit")),
      },
      peers: await runPeers(context, stack),
      judge: ({ p95, floor, ratio }) => [
        atMost(2.5, ratio),
        { goal: "p95 ≤ 4 x", isMet: p95 <= 4 * floor },
      ],
    });
    const first = await compare({
      ...FIRST,
      id: "first-byte",
      name: "first byte of output",
      ours: async () => firstProgress(client, sandbox),
      floor: { name: "run_process of true", run: runTrue },
      judge: ({ ratio }) => [atMost(1.5, ratio)],
    });
    return [run, first, ...(await measureStream(client, sandbox))];
  } finally {
    await killSandbox(client, sandbox);
  }
}

async function runPeers(
  { peers, runtime }: BenchContext,
  stack: AsyncDisposableStack,
): Promise<(Contestant | MissingPeer)[]> {
  return [
    { name: `${runtime.name} exec`, run: async () => timed(runtime.execTrue) },
    await hostPeer("command server, no sandbox", peers.npm.commands, {
      stack,
      call: async (host) => host.call("run_command", { command: "true" }),
    }),
    await hostPeer("process server, no sandbox", peers.npm.processes, {
      stack,
      call: async (host) => host.call("start_process", { command: "true", timeout_ms: 2_000 }),
    }),
    programPeer("bubblewrap", peers, [
      "--ro-bind",
      "/",
      "/",
      "--dev",
      "/dev",
      "--proc",
      "/proc",
      "--unshare-all",
      "true",
    ]),
    sandboxRuntimePeer(peers),
    await podmanPeer(),
  ];
}

interface HostCall {
  readonly stack: AsyncDisposableStack;
  readonly call: (host: PeerHost) => Promise<void>;
}

async function hostPeer(
  name: string,
  found: Found,
  { stack, call }: HostCall,
): Promise<Contestant | MissingPeer> {
  if ("missing" in found) return { name, ...found };
  try {
    const host = stack.use(await openPeer([found.path]));
    await call(host);
    return { name, run: async () => timed(async () => call(host)) };
  } catch {
    return { name, missing: "does not run here" };
  }
}

function programPeer(
  name: string,
  { debian, libraryPath, binaryPath }: Peers,
  args: readonly string[],
): Contestant | MissingPeer {
  if ("missing" in debian.bwrap) return { name, ...debian.bwrap };
  const environment = {
    PATH: `${binaryPath}:${process.env["PATH"]}`,
    LD_LIBRARY_PATH: libraryPath,
  };
  return spawned(name, [debian.bwrap.path, ...args], environment);
}

function sandboxRuntimePeer({ npm, libraryPath, binaryPath }: Peers): Contestant | MissingPeer {
  const name = "sandbox-runtime";
  if ("missing" in npm.sandboxRuntime) return { name, ...npm.sandboxRuntime };
  const environment = {
    HOME: "/var/tmp/sandbox-mcp-bench",
    PATH: `${binaryPath}:${process.env["PATH"]}`,
    LD_LIBRARY_PATH: libraryPath,
  };
  return spawned(name, [process.execPath, npm.sandboxRuntime.path, "true"], environment);
}

/** Too large to be unpacked beside the bench: taken where the machine has it. */
async function podmanPeer(): Promise<Contestant | MissingPeer> {
  const name = "podman run";
  const version = spawn("podman", ["--version"], { stdio: "ignore" });
  const isThere = await once(version, "exit").then(
    ([code]) => code === 0,
    () => false,
  );
  if (!isThere) return { name, missing: "not installed" };
  return spawned(name, ["podman", "run", "--rm", "--network", "none", "--rootfs", "/", "true"], {});
}

function spawned(
  name: string,
  [file = "", ...args]: readonly string[],
  environment: Readonly<Record<string, string>>,
): Contestant {
  const work = async () => {
    const child = spawn(file, args, { stdio: "ignore", env: { ...process.env, ...environment } });
    const [code] = await once(child, "exit");
    if (code !== 0) throw new Error(`${name} ended with ${code}`);
  };
  return { name, run: async () => timed(work) };
}

/** Milliseconds until the progress notification that shows the first output. */
async function firstProgress(client: TestClient, sandbox: string): Promise<number> {
  const startedAt = performance.now();
  let firstAt: number | undefined;
  const input = { sandbox_id: sandbox, cmd: "echo", args: ["x"] };
  const onProgress = () => {
    firstAt ??= performance.now();
  };
  await client.call("run_process", input, { onProgress });
  return (firstAt ?? performance.now()) - startedAt;
}

/** A rate, and what server and daemon grow by meanwhile. */
async function measureStream(client: TestClient, sandbox: string): Promise<Row[]> {
  const command = ["head", "-c", String(STREAM_BYTES), "/dev/zero"] as const;
  const [file, ...args] = command;
  const daemon = await daemonOf(sandbox);
  const before = { server: await rested(client.pid), daemon: await rested(daemon) };
  const rate = await compare({
    ...STREAMS,
    id: "stream",
    name: "100 MB of output through run_process",
    megabytes: STREAM_BYTES / 1e6,
    ours: async () => timed(async () => runIn(client, sandbox, command)),
    floor: {
      name: "a pipe",
      run: async () =>
        timed(async () => {
          const child = spawn(file, args, { stdio: ["ignore", "pipe", "ignore"] });
          child.stdout.resume();
          await once(child, "close");
        }),
    },
    judge: ({ ratio }) => [atLeast(0.4, ratio)],
  });
  return [
    rate,
    await growthOf("server", client.pid, before.server),
    await growthOf("daemon", daemon, before.daemon),
  ];
}

async function growthOf(name: string, pid: number, before: number): Promise<Row> {
  const ours = Math.max(((await statusBytes(pid, "VmHWM")) - before) / MIB, 0);
  const verdicts = [{ goal: `≤ ${MAX_GROWTH_MIB}`, isMet: ours <= MAX_GROWTH_MIB }];
  const base = { unit: "MiB" as const, samples: 1, peers: [], verdicts };
  return {
    ...base,
    id: `stream-${name}`,
    name: `growth of the ${name} during 100 MB of output`,
    ours,
  };
}

/** Resident bytes now; the peak counts anew from here. */
async function rested(pid: number): Promise<number> {
  await writeFile(`/proc/${pid}/clear_refs`, "5");
  return statusBytes(pid, "VmRSS");
}

async function daemonOf(sandbox: string): Promise<number> {
  for (const pid of await privateProcesses(sandbox)) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const names = await readdir(`/proc/${pid}/task`).catch(() => []);
    // The shell that starts it again has one thread.
    if (command.includes("daemon.cjs") && names.length > 1) return pid;
  }
  throw new Error("the sandbox has no daemon");
}
