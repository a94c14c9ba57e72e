/** A figure: medians of ours and of the floor beside it, taken in turns in one run. */

export interface Figure {
  readonly name: string;
  readonly unit: "ms" | "MB/s" | "MiB";
  readonly ours: number;
  /** What the same work costs without us: the limit of this machine. */
  readonly floor: number;
  readonly floorName: string;
  readonly samples: number;
}

/** The middle of the samples; the mean of the two middles for an even count. */
function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  if (sorted.length % 2 === 1) return upper;
  return ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Milliseconds that the work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

export interface Pair {
  readonly name: string;
  readonly floorName: string;
  readonly samples: number;
  /** Megabytes that each piece of work moves: the figure is then their rate. */
  readonly megabytes?: number;
  /** Each returns milliseconds; they run in turns, after one of each that does not count. */
  ours(): Promise<number>;
  floor(): Promise<number>;
}

/** Measures both sides of a pair in turns. */
export async function measurePair(pair: Pair): Promise<Figure> {
  await pair.ours();
  await pair.floor();
  const ours: number[] = [];
  const floor: number[] = [];
  for (let round = 0; round < pair.samples; round += 1) {
    ours.push(await pair.ours());
    floor.push(await pair.floor());
  }
  const { name, floorName, samples, megabytes } = pair;
  const base = { name, floorName, samples };
  if (megabytes === undefined) {
    return { ...base, unit: "ms", ours: median(ours), floor: median(floor) };
  }
  const rate = (ms: readonly number[]) => (megabytes * 1000) / median(ms);
  return { ...base, unit: "MB/s", ours: rate(ours), floor: rate(floor) };
}
