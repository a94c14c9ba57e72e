/** Creating sandboxes: from the warm pool, cold to the first answer, and beside a pool that refills. */

import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "../src/common/errors.ts";
import { startMcpClient } from "../test/support/mcp/mcp-client.ts";
import type { BenchContext } from "./context.ts";
import { atMost, below, compare, median, timed, type Row } from "./figure.ts";
import { createSandbox, killSandbox, runIn } from "./hosts.ts";
import type { Found } from "./peers.ts";
import { openPeerRuntime } from "./runtime.ts";
import { bareNode } from "./start.ts";

const WARM = { samples: 30, budgetMs: 30_000 };
const COLD = { samples: 30, budgetMs: 20_000 };
/** Enough for the pool to be full again. */
const REFILL_MS = 500;
/** A refill begins this long after the last create, and is over after the second time. */
const REFILL_BEGINS_MS = 110;
const REFILL_LASTS_MS = 120;
const REFILLS = 15;
const MAX_REASON_LENGTH = 80;

export async function measureCreate(context: BenchContext): Promise<Row[]> {
  return [
    await measureWarm(context),
    await measureCold(context),
    await measureBesideRefill(context.home),
  ];
}

async function measureWarm({ home, runtime }: BenchContext): Promise<Row> {
  await using client = await startMcpClient(["--home", home, "--pool", "2"]);
  let made: string | undefined;
  return await compare({
    ...WARM,
    id: "create-warm",
    name: "create_sandbox from the pool",
    async ours() {
      if (made !== undefined) await killSandbox(client, made);
      await delay(REFILL_MS);
      return timed(async () => {
        made = await createSandbox(client);
      });
    },
    floor: { name: `${runtime.name} run true`, run: async () => timed(runtime.runTrue) },
    judge: ({ p50, p95 }) => [below("p50 ms", 10, p50), below("p95 ms", 25, p95)],
  });
}

/** What this version needs to run where nothing was set up for it. */
const RUNSC_FLAGS = ["--platform=ptrace", "--network=none", "--ignore-cgroups"];

async function measureCold({ home, runtime, peers }: BenchContext): Promise<Row> {
  await using others = new AsyncDisposableStack();
  const race = async (name: string, program: Found, flags?: readonly string[]) => {
    if ("missing" in program) return { name, missing: program.missing };
    try {
      const peer = others.use(await openPeerRuntime(program.path, flags));
      return { name, run: async () => timed(peer.runTrue) };
    } catch (error) {
      return { name, missing: errorText(error).slice(0, MAX_REASON_LENGTH) };
    }
  };
  await using client = await startMcpClient(["--home", home, "--pool", "0"]);
  const node = bareNode();
  return await compare({
    ...COLD,
    id: "create-cold",
    name: "create cold to first exec answered",
    async ours() {
      let sandbox = "";
      const elapsed = await timed(async () => {
        sandbox = await createSandbox(client);
        await runIn(client, sandbox, ["true"]);
      });
      await killSandbox(client, sandbox);
      return elapsed;
    },
    floor: {
      name: `${runtime.name} run true + bare node`,
      run: async () => (await timed(runtime.runTrue)) + (await node.run()),
    },
    peers: [
      await race("runc run true", { path: "runc" }),
      await race("runsc run true", peers.debian.runsc, RUNSC_FLAGS),
    ],
    judge: ({ ratio }) => [atMost(1.5, ratio)],
  });
}

/** Calls in the moments in which the pool starts another sandbox, and the same calls in quiet. */
async function measureBesideRefill(home: string): Promise<Row> {
  await using client = await startMcpClient(["--home", home, "--pool", "2"]);
  const sandbox = await createSandbox(client);
  const callFor = async (ms: number): Promise<number[]> => {
    const taken: number[] = [];
    const endMs = performance.now() + ms;
    while (performance.now() < endMs) {
      taken.push(await timed(async () => runIn(client, sandbox, ["true"])));
    }
    return taken;
  };
  await delay(REFILL_MS);
  await callFor(REFILL_LASTS_MS);
  const during: number[] = [];
  const quiet: number[] = [];
  for (let round = 0; round < REFILLS; round += 1) {
    const other = await createSandbox(client);
    await delay(REFILL_BEGINS_MS);
    during.push(...(await callFor(REFILL_LASTS_MS)));
    await delay(REFILL_MS);
    await killSandbox(client, other);
    await delay(REFILL_BEGINS_MS);
    quiet.push(...(await callFor(REFILL_LASTS_MS)));
  }
  await killSandbox(client, sandbox);
  const [ours, floor] = [median(during), median(quiet)];
  return {
    id: "refill",
    name: "run_process of true while the pool refills",
    unit: "ms",
    ours,
    floor,
    floorName: "the same without a refill",
    samples: during.length,
    peers: [],
    verdicts: [atMost(1.2, ours / floor)],
  };
}
