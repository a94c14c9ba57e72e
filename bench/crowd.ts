/** Many at once, beside the processor time that the same work takes one by one. */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { startMcpClient } from "../test/support/mcp/mcp-client.ts";
import type { BenchContext } from "./context.ts";
import { atMost, median, timed, type Row } from "./figure.ts";
import { createSandbox, killSandbox, runIn } from "./hosts.ts";

const CALLS = 50;
const CREATES = 20;
const CALL_SAMPLES = 5;
const CREATE_SAMPLES = 3;
const MS_PER_TICK = 10;

export async function measureCrowd({ home }: BenchContext): Promise<Row[]> {
  await using client = await startMcpClient(["--home", home, "--pool", "0"]);
  const sandbox = await createSandbox(client);
  await Promise.all(Array.from({ length: CALLS }, async () => runIn(client, sandbox, ["true"])));
  const calls = await measureCase({
    id: "crowd-calls",
    name: `${CALLS} calls of run_process at once`,
    count: CALLS,
    samples: CALL_SAMPLES,
    one: async () => runIn(client, sandbox, ["true"]),
    clean: async () => undefined,
  });
  await killSandbox(client, sandbox);
  let made: string[] = [];
  const creates = await measureCase({
    id: "crowd-creates",
    name: `${CREATES} sandboxes created at once`,
    count: CREATES,
    samples: CREATE_SAMPLES,
    one: async () => void made.push(await createSandbox(client)),
    async clean() {
      for (const id of made) await killSandbox(client, id);
      made = [];
    },
  });
  return [calls, creates];
}

interface Crowd {
  readonly id: string;
  readonly name: string;
  readonly count: number;
  readonly samples: number;
  readonly one: () => Promise<void>;
  readonly clean: () => Promise<void>;
}

async function measureCase({ id, name, count, samples, one, clean }: Crowd): Promise<Row> {
  const together: number[] = [];
  const spread: number[] = [];
  for (let round = 0; round < samples; round += 1) {
    const before = await busyMs();
    for (let index = 0; index < count; index += 1) await one();
    spread.push(((await busyMs()) - before) / availableParallelism());
    await clean();
    together.push(await timed(async () => Promise.all(Array.from({ length: count }, one))));
    await clean();
  }
  const [ours, floor] = [median(together), median(spread)];
  return {
    id,
    name,
    unit: "ms",
    ours,
    floor,
    floorName: "sequential processor time divided by the cores",
    samples,
    peers: [],
    verdicts: [atMost(1.3, ours / floor)],
  };
}

/** Time that the processors of this machine were not idle. */
async function busyMs(): Promise<number> {
  const line = (await readFile("/proc/stat", "utf8")).split("\n")[0] ?? "";
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * MS_PER_TICK;
}
