/** Snapshots and forks of sandboxes whose programs go on, by how much memory they have. */

import { setTimeout as delay } from "node:timers/promises";
import { below, median, timed, type Row } from "./figure.ts";
import { startService, textOf, type BenchService } from "./service.ts";

interface MemoryCase {
  readonly mb: number;
  readonly samples: number;
  readonly maxMs?: number;
  readonly maxStoppedMs?: number;
}
const MEMORY_CASES: readonly MemoryCase[] = [
  { mb: 10, samples: 7 },
  { mb: 200, samples: 7, maxMs: 250, maxStoppedMs: 200 },
  { mb: 1_000, samples: 3 },
];
const FORKS = 10;
const FORK_SAMPLES = 3;
const FORK_MB = 200;
const MAX_FORKS_MS = 2_500;
const MEMORY_MB = 2_048;

/** Holds random bytes, and writes the longest time between two of its steps of a millisecond. */
const HOLDER = `import os, time
held = os.urandom(MB * 1000000)
longest = 0.0
open("/dev/shm/ready", "w").close()
last = time.monotonic()
while True:
    time.sleep(0.001)
    now = time.monotonic()
    if os.path.exists("/dev/shm/again"):
        os.remove("/dev/shm/again")
        longest = 0.0
    if now - last > longest:
        longest = now - last
        with open("/dev/shm/part", "w") as part:
            part.write(str(longest * 1000))
        os.rename("/dev/shm/part", "/dev/shm/longest")
    last = now
`;

export async function measureLive(level: readonly string[]): Promise<Row[]> {
  await using service = await startService([
    "--pool",
    "0",
    "--memory-mb",
    `${MEMORY_MB}`,
    ...level,
  ]);
  const rows: Row[] = [];
  for (const one of MEMORY_CASES) rows.push(...(await measureCheckpoints(service, one)));
  return [...rows, await measureForks(service)];
}

async function startHolder(service: BenchService, mb: number): Promise<string> {
  const sandbox = await service.create();
  const program = HOLDER.replace("MB", String(mb));
  await service.run(sandbox, ["sh", "-c", `setsid python3 -c '${program}' >/dev/null 2>&1 &`]);
  await service.run(sandbox, ["sh", "-c", "until [ -e /dev/shm/ready ]; do sleep 0.05; done"]);
  return sandbox;
}

async function measureCheckpoints(service: BenchService, one: MemoryCase): Promise<Row[]> {
  const { mb, samples, maxMs, maxStoppedMs } = one;
  const sandbox = await startHolder(service, mb);
  const series = { taken: [] as number[], stopped: [] as number[], restored: [] as number[] };
  for (let round = 0; round <= samples; round += 1) {
    await service.run(sandbox, ["touch", "/dev/shm/again"]);
    await delay(50);
    let made: unknown;
    const taken = await timed(async () => {
      made = await service.call("POST", `/sandboxes/${sandbox}/snapshots`, {});
    });
    const stopped = Number(await service.run(sandbox, ["cat", "/dev/shm/longest"]));
    const snapshot = textOf(made, "snapshotID");
    let copy = "";
    const restored = await timed(async () => {
      copy = await service.create(snapshot);
      await service.run(copy, ["true"]);
    });
    await service.kill(copy);
    await service.call("DELETE", `/templates/${encodeURIComponent(snapshot)}`);
    if (round === 0) continue;
    series.taken.push(taken);
    series.stopped.push(stopped);
    series.restored.push(restored);
  }
  await service.kill(sandbox);
  const what = `${mb} MB of memory`;
  const rows = [
    { id: "snapshot", name: `snapshot with ${what}`, values: series.taken, bound: maxMs },
    {
      id: "stopped",
      name: "the sandbox is stopped for",
      values: series.stopped,
      bound: maxStoppedMs,
    },
    { id: "restore", name: `create from ${what} to first exec answered`, values: series.restored },
  ];
  return rows.map(({ id, name, values, bound }) => {
    const ours = median(values);
    const verdicts = bound === undefined ? [] : [below("ms", bound, ours)];
    return { id: `gvisor-${id}-${mb}`, name, unit: "ms", ours, samples, peers: [], verdicts };
  });
}

async function measureForks(service: BenchService): Promise<Row> {
  const sandbox = await startHolder(service, FORK_MB);
  const path = `/sandboxes/${sandbox}/fork`;
  const series: number[] = [];
  // The first is not counted: it pays for memory that the machine has to get back from its host.
  for (let round = 0; round <= FORK_SAMPLES; round += 1) {
    let made: unknown;
    const taken = await timed(async () => {
      made = await service.call("POST", path, { count: FORKS, timeout: 600 });
    });
    const forks: unknown[] = Array.isArray(made) ? made : [];
    for (const fork of forks) {
      const copy: unknown = Reflect.get(Object(fork), "sandbox");
      if (copy === undefined) throw new Error(`no fork: ${JSON.stringify(fork).slice(0, 300)}`);
      await service.kill(textOf(copy, "sandboxID"));
    }
    if (round > 0) series.push(taken);
  }
  await service.kill(sandbox);
  const ours = median(series);
  return {
    id: "gvisor-fork",
    name: `fork x ${FORKS} with ${FORK_MB} MB of memory`,
    unit: "ms",
    ours,
    samples: FORK_SAMPLES,
    peers: [],
    verdicts: [below("ms", MAX_FORKS_MS, ours)],
  };
}
