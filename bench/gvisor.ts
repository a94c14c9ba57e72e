/**
 * The level gvisor beside that of the default runtime: starts, programs, pauses, and what only this
 * level has, snapshots and forks with memory. Without runsc there are no rows.
 */

import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { startMcpClient, type TestClient } from "../test/support/mcp/mcp-client.ts";
import { gvisorRuntime } from "../test/support/runtimes.ts";
import type { BenchContext } from "./context.ts";
import { below, compare, median, timed, type Contestant, type Row } from "./figure.ts";
import { createSandbox, killSandbox, runIn } from "./hosts.ts";
import { measureLive } from "./live-memory.ts";

const TURNS = { samples: 20, budgetMs: 20_000 };
const WRITES = { samples: 5, budgetMs: 30_000 };
const REFILL_MS = 1_500;
const SETTLE_MS = 2_500;
const IDLE_SANDBOXES = 3;
const SHARED = "the default runtime";
const BYTES_PER_MIB = 1024 ** 2;
/** Version 1, where the machine has it, and version 2: what is charged, and what counts as written. */
const MEMORY_FILES = [
  { tree: "/sys/fs/cgroup/memory", stat: "memory.stat", fields: ["rss", "shmem"] },
  { tree: "/sys/fs/cgroup", stat: "memory.stat", fields: ["anon", "shmem"] },
] as const;

const MAX_MOMENT_MS = 10;

export async function measureGvisor(context: BenchContext): Promise<Row[]> {
  const runtime = gvisorRuntime();
  if (runtime === undefined) return [];
  const level = ["--runtime", runtime, "--require-isolation", "gvisor"];
  return [
    ...(await measureStarts(context, level)),
    ...(await measurePrograms(context, level)),
    ...(await measureLive(level)),
  ];
}

/** Two servers on one home, and the same work by each in turns. */
async function openBoth({ home }: BenchContext, level: readonly string[], pool: string) {
  await using stack = new AsyncDisposableStack();
  const words = ["--home", home, "--pool", pool, "--toolsets", "all"];
  const gvisor = stack.use(await startMcpClient([...words, ...level]));
  const shared = stack.use(await startMcpClient(words));
  const owned = stack.move();
  return { gvisor, shared, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function measureStarts(context: BenchContext, level: readonly string[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [id, name, pool, waitMs] of [
    ["cold", "create cold to first exec answered", "0", 0],
    ["warm", "create_sandbox from the pool", "1", REFILL_MS],
  ] as const) {
    await using both = await openBoth(context, level, pool);
    const once = (client: TestClient) => async () => {
      await delay(waitMs);
      let made = "";
      const elapsed = await timed(async () => {
        made = await createSandbox(client);
        if (pool === "0") await runIn(client, made, ["true"]);
      });
      await killSandbox(client, made);
      return elapsed;
    };
    const floor: Contestant = { name: SHARED, run: once(both.shared) };
    const ours = once(both.gvisor);
    rows.push(
      await compare({ ...TURNS, id: `gvisor-${id}`, name: `${name}, gvisor`, ours, floor }),
    );
  }
  return rows;
}

const PROGRAMS: readonly {
  readonly id: string;
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly megabytes?: number;
}[] = [
  { id: "true", name: "run_process of true", command: ["true"] },
  { id: "python", name: "start of python3", command: ["python3", "-c", ""] },
  { id: "git", name: "git status", command: ["git", "-C", "/root/tree", "status"] },
  {
    id: "write",
    name: "256 MB of writes, synced",
    command: ["dd", "if=/dev/zero", "of=/root/file", "bs=1M", "count=256", "conv=fsync"],
    megabytes: 268,
  },
];
const MAKE_TREE =
  "mkdir -p /root/tree && cd /root/tree && git init -q && for i in $(seq 200); do echo $i >$i; done && git add .";

async function measurePrograms(context: BenchContext, level: readonly string[]): Promise<Row[]> {
  await using both = await openBoth(context, level, "0");
  const [gvisor, shared] = [await createSandbox(both.gvisor), await createSandbox(both.shared)];
  await runIn(both.gvisor, gvisor, ["sh", "-c", MAKE_TREE]);
  await runIn(both.shared, shared, ["sh", "-c", MAKE_TREE]);
  const rows: Row[] = [];
  for (const { id, name, command, megabytes } of PROGRAMS) {
    rows.push(
      await compare({
        ...(megabytes === undefined ? TURNS : WRITES),
        ...(megabytes !== undefined && { megabytes }),
        id: `gvisor-${id}`,
        name: `${name}, gvisor`,
        ours: async () => timed(async () => runIn(both.gvisor, gvisor, command)),
        floor: {
          name: SHARED,
          run: async () => timed(async () => runIn(both.shared, shared, command)),
        },
      }),
    );
  }
  rows.push(
    await measureMoments(
      { client: both.gvisor, sandbox: gvisor },
      { client: both.shared, sandbox: shared },
    ),
  );
  rows.push(await measureIdle(both));
  await killSandbox(both.gvisor, gvisor);
  await killSandbox(both.shared, shared);
  return rows;
}

interface Place {
  readonly client: TestClient;
  readonly sandbox: string;
}

async function pauseAndConnect({ client, sandbox }: Place): Promise<number> {
  return timed(async () => {
    for (const tool of ["pause_sandbox", "connect_sandbox"]) {
      const reply = await client.call(tool, { sandbox_id: sandbox });
      if (reply.isError) throw new Error(reply.text);
    }
  });
}

async function measureMoments(gvisor: Place, shared: Place): Promise<Row> {
  return compare({
    ...TURNS,
    id: "gvisor-pause-resume",
    name: "pause_sandbox and connect_sandbox, gvisor",
    ours: async () => pauseAndConnect(gvisor),
    floor: { name: SHARED, run: async () => pauseAndConnect(shared) },
    judge: ({ p50 }) => [below("p50 ms", MAX_MOMENT_MS, p50)],
  });
}

/** What sandboxes without work are charged, without the page cache. */
async function measureIdle(both: { readonly gvisor: TestClient; readonly shared: TestClient }) {
  const sizes = { gvisor: [] as number[], shared: [] as number[] };
  for (const name of ["gvisor", "shared"] as const) {
    for (let round = 0; round < IDLE_SANDBOXES; round += 1) {
      const sandbox = await createSandbox(both[name]);
      await runIn(both[name], sandbox, ["true"]);
      await delay(SETTLE_MS);
      sizes[name].push(await chargedMib(sandbox));
      await killSandbox(both[name], sandbox);
    }
  }
  return {
    id: "gvisor-idle",
    name: "memory of an idle sandbox, gvisor",
    unit: "MiB" as const,
    ours: median(sizes.gvisor),
    floor: median(sizes.shared),
    floorName: SHARED,
    samples: IDLE_SANDBOXES,
    peers: [],
    verdicts: [],
  };
}

async function chargedMib(sandbox: string): Promise<number> {
  for (const { tree, stat, fields } of MEMORY_FILES) {
    const path = `${tree}/sandbox-mcp/${sandbox}/${stat}`;
    const text = await readFile(path, "utf8").catch(() => "");
    if (text === "") continue;
    const of = (name: string) => Number(new RegExp(`^${name} ([0-9]+)$`, "m").exec(text)?.[1] ?? 0);
    return fields.reduce((sum, name) => sum + of(name), 0) / BYTES_PER_MIB;
  }
  throw new Error("the sandbox has no cgroup for memory");
}
