/** GET /metrics, and the figures of GET /usage: what the sandbox uses, from its cgroup where that is visible, else from /proc. */

import { readFile, statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { sendJson } from "../common/http.ts";
import { readCacheBytes } from "../common/page-cache.ts";
import type { Exchange } from "./exchange.ts";

interface CpuSample {
  readonly atMs: number;
  readonly usedMs: number;
}

interface Memory {
  readonly total: number;
  readonly used: number;
  readonly cache: number;
}

/** Paths of the same figure in both generations of cgroups; the first that exists counts. */
const MEMORY_LIMIT = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
const MEMORY_USED = [
  "/sys/fs/cgroup/memory.current",
  "/sys/fs/cgroup/memory/memory.usage_in_bytes",
];
const MEMORY_STAT = ["/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/memory/memory.stat"];
const MEMORY_EVENTS = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
const CPU_STAT = "/sys/fs/cgroup/cpu.stat";
const CPU_USAGE = "/sys/fs/cgroup/cpuacct/cpuacct.usage";

const KIB = 1024;
const MIB = KIB * KIB;
/** The kernel counts processor time of /proc/stat in hundredths of a second. */
const TICK_MS = 10;

/** A handler that remembers the processor time of the call before. */
export function createMetricsHandler(): (exchange: Exchange) => Promise<void> {
  let last: CpuSample | undefined;
  return async ({ response }) => {
    const sample = await readCpu();
    const cpuCount = availableParallelism();
    const [memory, disk] = await Promise.all([readMemory(), statfs("/")]);
    const usedPercent = percentOf(last, sample, cpuCount);
    last = sample;
    sendJson(response, 200, {
      body: {
        ts: Math.floor(Date.now() / 1000),
        cpu_count: cpuCount,
        cpu_used_pct: usedPercent,
        mem_total: memory.total,
        mem_used: memory.used,
        mem_cache: memory.cache,
        mem_total_mib: Math.floor(memory.total / MIB),
        mem_used_mib: Math.floor(memory.used / MIB),
        disk_used: (disk.blocks - disk.bavail) * disk.bsize,
        disk_total: disk.blocks * disk.bsize,
      },
    });
  };
}

function percentOf(last: CpuSample | undefined, now: CpuSample, cpuCount: number): number {
  const passedMs = now.atMs - (last?.atMs ?? now.atMs);
  if (last === undefined || passedMs <= 0) return 0;
  const share = (now.usedMs - last.usedMs) / (passedMs * cpuCount);
  return Math.round(Math.min(Math.max(share, 0), 1) * 10_000) / 100;
}

export async function readCpu(): Promise<CpuSample> {
  const atMs = performance.now();
  const micros = fieldOf(await readText(CPU_STAT), /^usage_usec (\d+)$/m);
  if (micros !== undefined) return { atMs, usedMs: micros / 1000 };
  const nanos = fieldOf(await readText(CPU_USAGE), /^(\d+)$/m);
  if (nanos !== undefined) return { atMs, usedMs: nanos / 1_000_000 };
  const [, user = 0, nice = 0, system = 0] = (await readText("/proc/stat"))
    .split("\n", 1)
    .flatMap((line) => line.split(/\s+/).map(Number));
  return { atMs, usedMs: (user + nice + system) * TICK_MS };
}

export async function readMemory(): Promise<Memory> {
  const machine = await readText("/proc/meminfo");
  const kibOf = (name: string) => fieldOf(machine, new RegExp(`^${name}:\\s+(\\d+) kB$`, "m")) ?? 0;
  const machineTotal = kibOf("MemTotal") * KIB;
  const limit = fieldOf(await readFirst(MEMORY_LIMIT), /^(\d+)$/m);
  const used = fieldOf(await readFirst(MEMORY_USED), /^(\d+)$/m);
  // A cgroup without a limit of its own shows a number beyond the machine, or the word `max`.
  if (limit === undefined || used === undefined || limit > machineTotal) {
    const cache = (kibOf("Cached") + kibOf("Buffers")) * KIB;
    return { total: machineTotal, used: machineTotal - kibOf("MemAvailable") * KIB, cache };
  }
  const cache = readCacheBytes(await readFirst(MEMORY_STAT));
  return { total: limit, used: Math.max(used - cache, 0), cache };
}

/** Processes that the kernel ended for lack of memory; undefined where it does not count them. */
export async function countOutOfMemory(): Promise<number | undefined> {
  return fieldOf(await readFirst(MEMORY_EVENTS), /^oom_kill (\d+)$/m);
}

async function readFirst(paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const text = await readText(path);
    if (text !== "") return text;
  }
  return "";
}

async function readText(path: string): Promise<string> {
  // A file that this kernel or sandbox does not show is the same as one without the figure.
  return readFile(path, "utf8").catch(() => "");
}

function fieldOf(text: string, pattern: RegExp): number | undefined {
  const value = pattern.exec(text)?.[1];
  return value === undefined ? undefined : Number(value);
}
