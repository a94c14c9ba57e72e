/** What sandboxes use over time: one timer for all, and none while no sandbox runs. */

import { setImmediate } from "node:timers/promises";
import { sleepUnlessWoken, type Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { asOperation } from "../common/operation.ts";
import type { Container, Usage } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";

const INTERVAL_MS = 5000;
const LOOKS_PER_TURN = 8;

/** An hour of every sample, and before it a day of one a minute: some 300 KB for each sandbox. */
const MAX_RECENT = 720;
const OLD_STEP_MS = 60_000;
const MAX_OLD = 1440;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BYTES_PER_MB = 1024 * 1024;

/** The longer the time asked for, the fewer samples of it are told. */
const STEPS: readonly (readonly [underMs: number, stepMs: number])[] = [
  [HOUR_MS, INTERVAL_MS],
  [6 * HOUR_MS, 30_000],
  [12 * HOUR_MS, 60_000],
  [DAY_MS, 120_000],
  [7 * DAY_MS, 300_000],
  [Infinity, 900_000],
];

/** What a sandbox used at one moment. */
export interface Sample {
  readonly atMs: number;
  readonly cpuCount: number;
  /** 0 to 100, over all processors of the sandbox, since the sample before. */
  readonly cpuUsedPercent: number;
  readonly memoryBytes: number;
  readonly memoryTotalBytes: number;
  readonly cacheBytes: number;
  readonly diskBytes: number;
  readonly diskTotalBytes: number;
  /** Since the start of its container; undefined where the kernel does not count. */
  readonly outOfMemoryKills: number | undefined;
}

export interface SampleRange {
  readonly startMs: number | undefined;
  readonly endMs: number | undefined;
}

export interface UsageMeter extends AsyncDisposable {
  /** A run began: there is something to measure. */
  note(): void;
  /** Oldest first; empty for a sandbox of which nothing is known. */
  read(sandboxId: string, range: SampleRange): Sample[];
  latest(sandboxId: string): Sample | undefined;
  /** A sample of this moment, which is not kept; undefined for what does not run. */
  measure(sandboxId: string): Promise<Sample | undefined>;
  forget(sandboxId: string): void;
}

/** A entry, as far as it is measured: while it has a run. */
interface MeteredEntry {
  readonly container: Pick<Container, "readUsage">;
  readonly record: Pick<SandboxRecord, "sandboxId" | "limits">;
  readonly run: unknown;
}

type Limits = MeteredEntry["record"]["limits"];

interface History {
  readonly recent: Sample[];
  readonly old: Sample[];
  cpuMs: number;
}

interface Measured {
  readonly history: History;
  readonly sample: Sample;
  readonly cpuMs: number;
}

/** Measures entries that run, every 5 seconds, for as long as there are any. */
export function startUsageMeter(options: {
  readonly clock: Clock;
  readonly log: Logger;
  readonly entries: ReadonlyMap<string, MeteredEntry>;
}): UsageMeter {
  const { clock, log, entries } = options;
  const histories = new Map<string, History>();
  const end = new AbortController();
  let watching: Promise<void> | undefined;

  const running = () => [...entries.values()].filter(({ run }) => run !== undefined);

  async function watch(): Promise<void> {
    // A caller of `note` adds its entry in the same turn, after this call.
    await Promise.resolve();
    try {
      while (!end.signal.aborted && running().length > 0) {
        await measureAll();
        await sleepUnlessWoken(clock, INTERVAL_MS, end.signal);
      }
    } finally {
      watching = undefined;
    }
  }

  async function measureAll(): Promise<void> {
    for (const [index, entry] of running().entries()) {
      await keep(entry);
      // A look waits for nothing, so that all of them at once would hold up every call.
      if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
    }
  }

  async function measure(entry: MeteredEntry): Promise<Measured | undefined> {
    const { sandboxId, limits } = entry.record;
    try {
      const usage = await asOperation("sandbox.measure", () => entry.container.readUsage());
      // It may have ended meanwhile; nothing may be remembered of it then.
      if (entries.get(sandboxId) !== entry) return undefined;
      const history = histories.get(sandboxId) ?? { recent: [], old: [], cpuMs: usage.cpuMs };
      return {
        history,
        cpuMs: usage.cpuMs,
        sample: toSample(history, usage, { limits, atMs: clock.now() }),
      };
    } catch (error) {
      // A sandbox that is just ending has nothing to measure.
      log.debug({ op: "sandbox.measure", sandboxId, err: error }, "sandbox was not measured");
      return undefined;
    }
  }

  async function keep(entry: MeteredEntry): Promise<void> {
    const measured = await measure(entry);
    if (measured === undefined) return;
    const { history, sample, cpuMs } = measured;
    histories.set(entry.record.sandboxId, history);
    add(history, sample);
    history.cpuMs = cpuMs;
  }

  return {
    note() {
      // Its faults are logged inside.
      watching ??= watch();
    },
    read: (sandboxId, range) => select(histories.get(sandboxId), range),
    latest: (sandboxId) => histories.get(sandboxId)?.recent.at(-1),
    async measure(sandboxId) {
      const entry = entries.get(sandboxId);
      return entry?.run === undefined ? undefined : (await measure(entry))?.sample;
    },
    forget: (sandboxId) => void histories.delete(sandboxId),
    async [Symbol.asyncDispose]() {
      end.abort();
      await watching;
    },
  };
}

function toSample(
  history: History,
  usage: Usage,
  { limits, atMs }: { readonly limits: Limits; readonly atMs: number },
): Sample {
  return {
    atMs,
    cpuCount: limits.cpus,
    cpuUsedPercent: percentOf(history, { cpuMs: usage.cpuMs, atMs, cpus: limits.cpus }),
    memoryBytes: usage.memoryBytes,
    memoryTotalBytes: limits.memoryMb * BYTES_PER_MB,
    cacheBytes: usage.cacheBytes,
    diskBytes: usage.diskBytes,
    diskTotalBytes: usage.diskTotalBytes,
    outOfMemoryKills: usage.outOfMemoryKills,
  };
}

function percentOf(
  { recent, cpuMs }: History,
  now: { readonly atMs: number; readonly cpuMs: number; readonly cpus: number },
): number {
  const passedMs = now.atMs - (recent.at(-1)?.atMs ?? now.atMs);
  // A boot begins to count anew.
  if (passedMs <= 0 || now.cpuMs < cpuMs) return 0;
  const share = (now.cpuMs - cpuMs) / (passedMs * now.cpus);
  return Math.round(Math.min(share, 1) * 10_000) / 100;
}

function add({ recent, old }: History, sample: Sample): void {
  // After a pause of days they would be told with the new ones, in the long steps of such a range.
  for (const samples of [old, recent]) {
    while (Math.abs(sample.atMs - (samples[0]?.atMs ?? sample.atMs)) > DAY_MS) samples.shift();
  }
  recent.push(sample);
  if (recent.length <= MAX_RECENT) return;
  const leaving = recent.shift();
  if (leaving === undefined) return;
  const newest = old.at(-1);
  if (newest !== undefined && Math.abs(leaving.atMs - newest.atMs) < OLD_STEP_MS) {
    old[old.length - 1] = { ...toPeak(newest, leaving), atMs: newest.atMs };
    return;
  }
  old.push(leaving);
  if (old.length > MAX_OLD) old.shift();
}

function select(history: History | undefined, { startMs, endMs }: SampleRange): Sample[] {
  if (history === undefined) return [];
  const wanted = [...history.old, ...history.recent].filter(
    ({ atMs }) => atMs >= (startMs ?? 0) && atMs <= (endMs ?? Infinity),
  );
  const firstMs = wanted[0]?.atMs ?? 0;
  const spanMs = (wanted.at(-1)?.atMs ?? 0) - firstMs;
  const stepMs = STEPS.find(([underMs]) => spanMs < underMs)?.[1] ?? INTERVAL_MS;
  if (stepMs === INTERVAL_MS) return wanted;
  const newest = wanted.pop();
  const steps = new Map<number, Sample>();
  for (const sample of wanted) {
    const number = Math.floor(sample.atMs / stepMs);
    steps.set(number, toPeak(steps.get(number), sample));
  }
  // That is asked for to learn what is used now.
  return [...steps.values(), ...(newest === undefined ? [] : [newest])];
}

/** The later sample, with the most that was used in the time of both: a short peak stays visible. */
function toPeak(earlier: Sample | undefined, later: Sample): Sample {
  if (earlier === undefined) return later;
  const most = (read: (sample: Sample) => number) => Math.max(read(earlier), read(later));
  return {
    ...later,
    cpuUsedPercent: most((sample) => sample.cpuUsedPercent),
    memoryBytes: most((sample) => sample.memoryBytes),
    cacheBytes: most((sample) => sample.cacheBytes),
    diskBytes: most((sample) => sample.diskBytes),
  };
}
