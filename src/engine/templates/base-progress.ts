/** How far a build of the template `base` is, judged by what its builder says and by the clock. */

/** Alone on two processors; a slower machine shows itself at the second phase. */
const EXPECTED_MS = 60_000;
/** Before this share is done the time that it took says little about the rest. */
const MIN_MEASURED_SHARE = 0.25;
/** It is not done before it is said to be. */
const MAX_SHARE = 0.99;
const ROUND_TO_S = 5;

/** What is done when a phase begins, by the first words of the line that announces it. */
const PHASES: readonly (readonly [start: string, share: number])[] = [
  ["downloading packages", 0.08],
  ["extracting archives", 0.13],
  ["installing essential", 0.43],
  ["installing remaining", 0.5],
  ["cleaning package", 0.95],
];

export interface BuildProgress {
  /** Takes note of a line of the builder. */
  note(line: string): void;
  /** Between 0 and 1. */
  share(): number;
  /** Such as `about 30 s left`; past the time that it was given, `70 s so far`. */
  describe(): string;
}

/** The progress of a build that began at `startedAtMs`. */
export function createBuildProgress(
  startedAtMs: number,
  now: () => number,
  firstExpectedMs: number = EXPECTED_MS,
): BuildProgress {
  let reached = { share: 0, expectedMs: firstExpectedMs };
  const elapsedMs = () => Math.max(0, now() - startedAtMs);
  return {
    note(line) {
      const share = PHASES.find(([start]) => line.startsWith(start))?.[1];
      if (share === undefined || share <= reached.share) return;
      const measuredMs = elapsedMs() / share;
      const expectedMs = share < MIN_MEASURED_SHARE ? reached.expectedMs : measuredMs;
      reached = { share, expectedMs };
    },
    share() {
      const share = Math.max(reached.share, elapsedMs() / reached.expectedMs);
      return Math.min(MAX_SHARE, share);
    },
    describe() {
      const leftMs = reached.expectedMs - elapsedMs();
      if (leftMs <= 0) return `${Math.round(elapsedMs() / 1_000)} s so far`;
      return `about ${Math.ceil(leftMs / 1_000 / ROUND_TO_S) * ROUND_TO_S} s left`;
    },
  };
}
