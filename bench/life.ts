/** Pause and resume, snapshots of small and large disks, forks. */

import { setTimeout as delay } from "node:timers/promises";
import type { BenchContext } from "./context.ts";
import { atMost, below, compare, median, timed, type Row, type Verdict } from "./figure.ts";
import { startService, textOf, type BenchService } from "./service.ts";

const PAUSES = { samples: 30, budgetMs: 10_000 };
const MAX_MOMENT_MS = 10;
const SMALL = { id: "snapshot-8", mb: 8, samples: 10, maxMs: 50 };
const LARGE = { id: "snapshot-1000", mb: 1_000, samples: 3, maxMs: 150 };
const MAX_STOPPED_MS = 20;
const MAX_RANDOM_MB = 2_000;
const FORKS = 10;
const FORK_TURNS = { samples: 5, budgetMs: 30_000 };
const MAX_FORK_MS = 300;
const MAX_FORK_RATIO = 1.2;

export async function measureLife(context: BenchContext): Promise<Row[]> {
  await using service = await startService(["--pool", "0", "--disk-mb", "6000"]);
  return [
    ...(await measurePauses(service, context)),
    ...(await measureSnapshots(service, SMALL)),
    ...(await measureSnapshots(service, LARGE)),
    await measureForks(service),
  ];
}

async function measurePauses(service: BenchService, { runtime }: BenchContext): Promise<Row[]> {
  const sandbox = await service.create();
  const path = `/sandboxes/${sandbox}`;
  const pause = async () => timed(async () => service.call("POST", `${path}/pause`));
  const resume = async () =>
    timed(async () => service.call("POST", `/v2${path}/connect`, { timeout: 3_600 }));
  const pauses = await compare({
    ...PAUSES,
    id: "pause",
    name: "pause",
    async ours() {
      const elapsed = await pause();
      await resume();
      return elapsed;
    },
    floor: {
      name: `${runtime.name} pause`,
      async run() {
        const elapsed = await timed(runtime.pause);
        await runtime.resume();
        return elapsed;
      },
    },
    judge: judgeMoment,
  });
  const resumes = await compare({
    ...PAUSES,
    id: "resume",
    name: "resume",
    async ours() {
      await pause();
      return resume();
    },
    floor: {
      name: `${runtime.name} resume`,
      async run() {
        await runtime.pause();
        return timed(runtime.resume);
      },
    },
    judge: judgeMoment,
  });
  await service.kill(sandbox);
  return [pauses, resumes];
}

function judgeMoment({ p50 }: { readonly p50: number }): Verdict[] {
  return [below("p50 ms", MAX_MOMENT_MS, p50)];
}

/** Keeps the longest time between two of its own steps of a millisecond in a file. */
const CLOCK = `import os, time
longest = 0.0
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

export interface SnapshotCase {
  readonly id: string;
  readonly mb: number;
  readonly samples: number;
  readonly maxMs: number;
  /** For the time in which the sandbox is frozen; default 20. */
  readonly maxStoppedMs?: number;
  /** Where it is taken, for its name. */
  readonly where?: string;
}

export async function measureSnapshots(
  service: BenchService,
  options: SnapshotCase,
): Promise<Row[]> {
  const { id, mb, samples, maxMs, maxStoppedMs = MAX_STOPPED_MS, where = "" } = options;
  const sandbox = await service.create();
  await service.run(sandbox, ["sh", "-c", `setsid python3 -c '${CLOCK}' >/dev/null 2>&1 &`]);
  const taken: number[] = [];
  const stopped: number[] = [];
  for (let round = 0; round <= samples; round += 1) {
    // Random bytes take longer to make than to write.
    const source = mb > MAX_RANDOM_MB ? "zero" : "urandom";
    const fill = `head -c ${mb}000000 /dev/${source} > /root/dirty; sync -f /root; touch /dev/shm/again`;
    await service.run(sandbox, ["sh", "-c", fill]);
    await delay(50);
    let made: unknown;
    const elapsed = await timed(async () => {
      made = await service.call("POST", `/sandboxes/${sandbox}/snapshots`, {});
    });
    const longest = Number(await service.run(sandbox, ["cat", "/dev/shm/longest"]));
    if (round > 0) {
      taken.push(elapsed);
      stopped.push(longest);
    }
    await service.call("DELETE", `/templates/${encodeURIComponent(textOf(made, "snapshotID"))}`);
  }
  await service.kill(sandbox);
  const base = { unit: "ms" as const, samples: taken.length, peers: [] };
  const [total, pause] = [median(taken), median(stopped)];
  return [
    {
      ...base,
      id,
      name: `snapshot with ${mb} MB written${where}`,
      ours: total,
      verdicts: [below("ms", maxMs, total)],
    },
    {
      ...base,
      id: `${id}-stopped`,
      name: "the sandbox is frozen for",
      ours: pause,
      verdicts: [below("ms", maxStoppedMs, pause)],
    },
  ];
}

interface ForkCase {
  readonly id: string;
  readonly where: string;
}

/** Forks, beside as many creates at once. */
export async function measureForks(
  service: BenchService,
  { id, where }: ForkCase = { id: "fork", where: "" },
): Promise<Row> {
  const sandbox = await service.create();
  const end = async (ids: readonly string[]): Promise<void> => {
    for (const one of ids) await service.kill(one);
  };
  const row = await compare({
    ...FORK_TURNS,
    id,
    name: `fork x ${FORKS}${where}`,
    async ours() {
      let made: unknown;
      const elapsed = await timed(async () => {
        made = await service.call("POST", `/sandboxes/${sandbox}/fork`, {
          count: FORKS,
          timeout: 600,
        });
      });
      const forks: unknown[] = Array.isArray(made) ? made : [];
      await end(forks.map((fork) => textOf(Reflect.get(Object(fork), "sandbox"), "sandboxID")));
      return elapsed;
    },
    floor: {
      name: `${FORKS} creates at once`,
      async run() {
        let made: string[] = [];
        const elapsed = await timed(async () => {
          made = await Promise.all(Array.from({ length: FORKS }, async () => service.create()));
        });
        await end(made);
        return elapsed;
      },
    },
    judge: ({ p50, ratio }) => [atMost(MAX_FORK_RATIO, ratio), below("ms", MAX_FORK_MS, p50)],
  });
  await service.kill(sandbox);
  return row;
}
