/**
 * What a sandbox costs when there are many: create, exec, list, memory and idle time, from 1 to 500;
 * of a template, or of a snapshot whose disk is cloned for each of them.
 */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { createGate } from "../src/common/concurrency.ts";
import { median, quantile, timed, type Row } from "./figure.ts";
import { writtenMib } from "./memory.ts";
import { startService, textOf, type BenchService } from "./service.ts";

const AT_ONCE = 2;
const ENDS_AT_ONCE = 8;
const EXECS = 30;
const LISTS = 200;
/** Sandboxes whose memory is looked at. */
const SIZES = 20;
const IDLE_MS = 5_000;
/** By then daemons rest. */
const SETTLE_MS = 2_500;
const NS_PER_MS = 1e6;
const MS_PER_TICK = 10;
const MAX_LIST_MS = 50;
const MAX_IDLE_PERCENT = 2;
/** The last point may cost this much more than the first of many. */
const FLAT = 1.3;

/** One place on the cost curve. */
export interface Point {
  readonly sandboxes: number;
  readonly createMs: number;
  readonly execMs: number;
  readonly listP99Ms: number;
  /** What the processes of one wrote themselves. */
  readonly memoryMib: number;
  /** Of all processors together, by the sandboxes and their service. */
  readonly idlePercent: number;
}

export interface Density {
  /** Ascending. */
  readonly counts: readonly number[];
  /** By `performance.now()`: after it no further count is begun. */
  readonly deadlineMs: number;
  /** What they begin with. */
  readonly from: "template" | "clone";
}

const CLONE = { id: "clone-density", where: ", clones in a store", flags: ["--store-gb", "64"] };
const TEMPLATE = { id: "density", where: "", flags: [] };
const CLONED_MB = 8;

/** Fills the machine up to each of the counts; everything is gone when it resolves. */
export async function measureDensity({
  counts,
  deadlineMs,
  from,
}: Density): Promise<{ readonly rows: Row[]; readonly curve: Point[] }> {
  const kind = from === "clone" ? CLONE : TEMPLATE;
  const flags = ["--pool", "0", "--max-sandboxes", String(Math.max(...counts) + 10), ...kind.flags];
  await using service = await startService(flags);
  const ids: string[] = [];
  const curve: Point[] = [];
  // The first one fills caches that all others share.
  const first = await service.create();
  const template = from === "clone" ? await snapshotOf(service, first) : "base";
  await service.kill(first);
  const before = await countKernel();
  let silent = 0;
  for (const count of counts) {
    if (performance.now() > deadlineMs) break;
    const createMs = await grow(service, { ids, count, template });
    silent += await countSilent(service, ids);
    await delay(SETTLE_MS);
    const sampled = ids.filter((_id, index) => index % Math.ceil(ids.length / SIZES) === 0);
    const memoryMib = median(await Promise.all(sampled.map(writtenMib)));
    const idlePercent = await measureIdle(service.pid);
    const execs: number[] = [];
    for (let index = 0; index < EXECS; index += 1) {
      const id = ids[Math.floor((index * ids.length) / EXECS)] ?? "";
      execs.push(await timed(async () => service.run(id, ["true"])));
    }
    const lists: number[] = [];
    for (let index = 0; index < LISTS; index += 1) {
      lists.push(await timed(async () => service.call("GET", "/v2/sandboxes?limit=100")));
    }
    const listP99Ms = quantile(lists, 0.99);
    const execMs = median(execs);
    curve.push({ sandboxes: count, createMs, execMs, listP99Ms, memoryMib, idlePercent });
  }
  const after = await countKernel();
  const gate = createGate(ENDS_AT_ONCE);
  await Promise.all(ids.map(async (id) => gate.run(async () => service.kill(id))));
  const each = (what: keyof typeof after) => (after[what] - before[what]) / ids.length;
  const counted = (["mounts", "loopDevices"] as const).map((what) => ({ what, each: each(what) }));
  return { rows: toRows(curve, { ...kind, silent, counted }), curve };
}

/** The sandbox has bytes of its own, which its clones share. */
async function snapshotOf(service: BenchService, sandbox: string): Promise<string> {
  const fill = `head -c ${CLONED_MB}000000 /dev/urandom > /root/shared`;
  await service.run(sandbox, ["sh", "-c", fill]);
  return textOf(await service.call("POST", `/sandboxes/${sandbox}/snapshots`, {}), "snapshotID");
}

/** What the kernel holds of the machine. */
async function countKernel() {
  const mounts = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").length;
  const { stdout } = await promisify(execFile)("losetup", ["--list", "--noheadings"]);
  return { mounts, loopDevices: stdout.split("\n").length };
}

interface Growth {
  readonly ids: string[];
  readonly count: number;
  readonly template: string;
}

/** Creates up to a count; the median of what each took. */
async function grow(service: BenchService, { ids, count, template }: Growth): Promise<number> {
  const gate = createGate(AT_ONCE);
  const taken: number[] = [];
  const wanted = Array.from({ length: count - ids.length }, async () =>
    gate.run(async () => {
      taken.push(await timed(async () => void ids.push(await service.create(template))));
    }),
  );
  await Promise.all(wanted);
  return median(taken);
}

/** How many do not answer an exec. */
async function countSilent(service: BenchService, ids: readonly string[]): Promise<number> {
  const gate = createGate(AT_ONCE);
  const answers = ids.map(async (id) =>
    gate.run(async () => {
      const output = await service.run(id, ["echo", id]).catch(() => "");
      return output.trim() === id;
    }),
  );
  return (await Promise.all(answers)).filter((isRight) => !isRight).length;
}

async function measureIdle(service: number): Promise<number> {
  const before = await spentMs(service);
  await delay(IDLE_MS);
  const spent = (await spentMs(service)) - before;
  return (spent * 100) / IDLE_MS / availableParallelism();
}

/** Processor time of the service and of all sandboxes. */
async function spentMs(service: number): Promise<number> {
  const stat = await readFile(`/proc/${service}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const own = (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
  const path = "/sys/fs/cgroup/cpuacct/sandbox-mcp/cpuacct.usage";
  const legacy = await readFile(path, "utf8").catch(() => "");
  if (legacy !== "") return own + Number(legacy) / NS_PER_MS;
  const unified = await readFile("/sys/fs/cgroup/sandbox-mcp/cpu.stat", "utf8").catch(() => "");
  return own + Number(/^usage_usec (\d+)$/m.exec(unified)?.[1] ?? 0) / 1_000;
}

interface Facts {
  readonly id: string;
  readonly where: string;
  readonly silent: number;
  readonly counted: readonly { readonly what: string; readonly each: number }[];
}

function toRows(curve: readonly Point[], { id, where, silent, counted }: Facts): Row[] {
  const last = curve.at(-1);
  const many = curve.find(({ sandboxes }) => sandboxes >= 10);
  if (last === undefined || many === undefined) return [];
  const { sandboxes, listP99Ms, idlePercent } = last;
  const base = { samples: 1, peers: [] };
  const costs = [
    ["create", "createMs", "ms"],
    ["exec", "execMs", "ms"],
    ["memory", "memoryMib", "MiB"],
  ] as const;
  return [
    ...costs.map(([name, field, unit]) => ({
      ...base,
      id: `${id}-${name}`,
      name: `${name} at ${sandboxes} sandboxes${where}`,
      unit,
      ours: last[field],
      floor: many[field],
      floorName: `at ${many.sandboxes}`,
      verdicts: [atMostFlat(last[field] / many[field])],
    })),
    {
      ...base,
      id: `${id}-list`,
      name: `p99 of list at ${sandboxes} sandboxes${where}`,
      unit: "ms" as const,
      ours: listP99Ms,
      samples: LISTS,
      verdicts: [
        { goal: `≤ ${MAX_LIST_MS}`, isMet: listP99Ms <= MAX_LIST_MS },
        { goal: "all answer exec", isMet: silent === 0 },
      ],
    },
    {
      ...base,
      id: `${id}-idle`,
      name: `processors used by ${sandboxes} idle sandboxes${where}`,
      unit: "%" as const,
      ours: idlePercent,
      verdicts: [{ goal: `< ${MAX_IDLE_PERCENT}`, isMet: idlePercent < MAX_IDLE_PERCENT }],
    },
    ...counted.map(({ what, each }) => ({
      ...base,
      id: `${id}-${what}`,
      name: `${what === "mounts" ? "mounts" : "loop devices"} of each of ${sandboxes} sandboxes${where}`,
      unit: "" as const,
      ours: each,
      verdicts: [],
    })),
  ];
}

function atMostFlat(ratio: number) {
  return { goal: `flat: ≤ ${FLAT} x`, isMet: ratio <= FLAT };
}
