/** A row of the bench: what ours takes, what its floor takes in the same run, and peers beside them. */

import { withDeadline } from "../src/common/clock.ts";

/** What a row promises, and whether this run kept it. */
export interface Verdict {
  readonly goal: string;
  readonly isMet: boolean;
}

export interface Peer {
  readonly name: string;
  /** In the unit of the row; undefined for one that did not run here. */
  readonly value: number | undefined;
  readonly note?: string;
}

export interface Row {
  /** Names the row in the baseline. */
  readonly id: string;
  readonly name: string;
  /** Empty for a count. */
  readonly unit: "ms" | "MB/s" | "MiB" | "%" | "";
  readonly ours: number;
  /** Of rows in milliseconds with samples enough. */
  readonly p95?: number;
  /** What the same work costs without us, taken in turns with ours. */
  readonly floor?: number;
  readonly floorName?: string;
  readonly samples: number;
  readonly peers: readonly Peer[];
  readonly verdicts: readonly Verdict[];
}

/** Ours by the floor's measure; undefined for a row without one. */
export function ratioOf({ ours, floor }: Pick<Row, "ours" | "floor">): number | undefined {
  return floor === undefined || floor === 0 ? undefined : ours / floor;
}

/** The given share of samples is not above it; 0.5 is the median. */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((left, right) => left - right);
  const place = (sorted.length - 1) * share;
  const lower = sorted[Math.floor(place)] ?? Number.NaN;
  const upper = sorted[Math.ceil(place)] ?? Number.NaN;
  return lower + (upper - lower) * (place - Math.floor(place));
}

export function median(samples: readonly number[]): number {
  return quantile(samples, 0.5);
}

/** Milliseconds that the work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** One that does the same work as others; `run` returns milliseconds. */
export interface Contestant {
  readonly name: string;
  readonly run: () => Promise<number>;
}

export interface Turns {
  readonly samples: number;
  /** No further round is begun after it, once there are three. */
  readonly budgetMs: number;
}

const MIN_SAMPLES = 3;

/** Samples of each, taken in turns, after one of each that does not count. */
async function takeTurns(
  contestants: readonly Contestant[],
  { samples, budgetMs }: Turns,
): Promise<number[][]> {
  const series = contestants.map((): number[] => []);
  const endMs = performance.now() + budgetMs;
  for (let round = 0; round <= samples; round += 1) {
    if (round > MIN_SAMPLES && performance.now() > endMs) break;
    for (const [index, { run }] of contestants.entries()) {
      const ms = await run();
      if (round > 0) series[index]?.push(ms);
    }
  }
  return series;
}

export interface Comparison extends Turns {
  readonly id: string;
  readonly name: string;
  readonly ours: () => Promise<number>;
  readonly floor: Contestant;
  readonly peers?: readonly (Contestant | MissingPeer)[];
  /** Megabytes that each piece of work moves: the figures are then rates. */
  readonly megabytes?: number;
  judge?(figures: Judged): readonly Verdict[];
}

/** A peer that does not run here, and why. */
export interface MissingPeer {
  readonly name: string;
  readonly missing: string;
}

export interface Judged {
  readonly p50: number;
  readonly p95: number;
  readonly floor: number;
  readonly ratio: number;
}

/** Measures ours, its floor and its peers in turns. */
export async function compare(comparison: Comparison): Promise<Row> {
  const { id, name, megabytes, peers = [] } = comparison;
  const missing = peers.filter((peer) => "missing" in peer);
  const running: Contestant[] = [];
  for (const peer of peers.filter((candidate) => "run" in candidate)) {
    // A peer that does not work here must not cost us the row.
    if (await tryOut(peer)) running.push(peer);
    else missing.push({ name: peer.name, missing: "does not work here" });
  }
  const ours: Contestant = { name: "ours", run: comparison.ours };
  const series = await takeTurns([ours, comparison.floor, ...running], comparison);
  const [mine = [], floors = [], ...others] = series;
  const toFigure = (samples: readonly number[], share: number) =>
    megabytes === undefined
      ? quantile(samples, share)
      : (megabytes * 1000) / quantile(samples, share);
  const [p50, p95, floor] = [toFigure(mine, 0.5), toFigure(mine, 0.95), toFigure(floors, 0.5)];
  const measured = running.map((peer, index) => ({
    name: peer.name,
    value: toFigure(others[index] ?? [], 0.5),
  }));
  const absent = missing.map((peer) => ({
    name: peer.name,
    value: undefined,
    note: peer.missing,
  }));
  return {
    id,
    name,
    unit: megabytes === undefined ? "ms" : "MB/s",
    ours: p50,
    p95,
    floor,
    floorName: comparison.floor.name,
    samples: mine.length,
    peers: [...measured, ...absent],
    verdicts: comparison.judge?.({ p50, p95, floor, ratio: p50 / floor }) ?? [],
  };
}

const TRY_LIMIT_MS = 15_000;

async function tryOut({ name, run }: Contestant): Promise<boolean> {
  try {
    await withDeadline(run(), TRY_LIMIT_MS, () => new Error(`${name} hangs`));
    return true;
  } catch {
    return false;
  }
}

/** A bound on the ratio to the floor. */
export function atMost(times: number, ratio: number): Verdict {
  return { goal: `≤ ${times} x`, isMet: ratio <= times };
}

export function atLeast(share: number, ratio: number): Verdict {
  return { goal: `≥ ${Math.round(share * 100)} %`, isMet: ratio >= share };
}

/** A bound on a figure of its own. */
export function below(what: string, bound: number, figure: number): Verdict {
  return { goal: `${what} ≤ ${bound}`, isMet: figure <= bound };
}
