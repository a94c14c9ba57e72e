/** What an idle sandbox keeps for itself, beside an idle node. */

import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { startMcpClient } from "../test/support/mcp/mcp-client.ts";
import type { BenchContext } from "./context.ts";
import { median, type Row } from "./figure.ts";
import { createSandbox, killSandbox, runIn } from "./hosts.ts";

const SANDBOXES = 5;
/** The daemon gives memory back once it was not asked for anything for a second. */
const SETTLE_MS = 2_500;
const MAX_MIB = 14;
const KIB_PER_MIB = 1024;
const TREES = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] as const;

export async function measureMemory({ home }: BenchContext): Promise<Row[]> {
  await using client = await startMcpClient(["--home", home, "--pool", "0"]);
  const ours: number[] = [];
  const floor: number[] = [];
  const sandboxes: string[] = [];
  for (let round = 0; round < SANDBOXES; round += 1) {
    const sandbox = await createSandbox(client);
    sandboxes.push(sandbox);
    await runIn(client, sandbox, ["true"]);
    const node = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e9)"], { stdio: "ignore" });
    await delay(SETTLE_MS);
    const pids = await privateProcesses(sandbox);
    const sizes = await Promise.all(pids.map(privateMib));
    ours.push(sizes.reduce((sum, size) => sum + size, 0));
    floor.push(await privateMib(node.pid ?? 0));
    node.kill("SIGKILL");
  }
  for (const sandbox of sandboxes) await killSandbox(client, sandbox);
  const size = median(ours);
  return [
    {
      id: "memory",
      name: "private memory of an idle sandbox",
      unit: "MiB",
      ours: size,
      floor: median(floor),
      floorName: "an idle node",
      samples: SANDBOXES,
      peers: [],
      verdicts: [{ goal: `≤ ${MAX_MIB}`, isMet: size <= MAX_MIB }],
    },
  ];
}

/** The processes of a sandbox, as the host counts. */
export async function privateProcesses(sandbox: string): Promise<number[]> {
  for (const tree of TREES) {
    const path = `${tree}/sandbox-mcp/${sandbox}/cgroup.procs`;
    const text = await readFile(path, "utf8").catch(() => "");
    const pids = text.split("\n").filter(Boolean).map(Number);
    if (pids.length > 0) return pids;
  }
  throw new Error("the sandbox has no process");
}

/** Programs and libraries included, as far as nobody else has them. */
async function privateMib(pid: number): Promise<number> {
  return sumMib(pid, /^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm);
}

/** What the processes of a sandbox wrote themselves, whoever shares the rest. */
export async function writtenMib(sandbox: string): Promise<number> {
  const pids = await privateProcesses(sandbox);
  const sizes = await Promise.all(
    pids.map(async (pid) => sumMib(pid, /^Private_Dirty:\s+(\d+) kB$/gm)),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function sumMib(pid: number, pattern: RegExp): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const parts = [...text.matchAll(pattern)];
  return parts.reduce((sum, [, kib]) => sum + Number(kib), 0) / KIB_PER_MIB;
}

/** A size in the status of a process. */
export async function statusBytes(pid: number, field: "VmRSS" | "VmHWM"): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, "utf8");
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
  return Number(kib ?? 0) * KIB_PER_MIB;
}
