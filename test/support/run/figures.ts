/** Figures that a test has measured; the report of a whole run makes a table of them. */

import type { TestContext } from "vitest";

/** Milliseconds that calls took. */
export interface Delays {
  readonly p50: number;
  readonly p90: number;
  readonly max: number;
}

/** What the calls of a neighbour take while a sandbox does its worst, and while it does nothing. */
export interface NeighbourFigures {
  readonly bomb: string;
  readonly calls: number;
  readonly without: Delays;
  readonly beside: Delays;
}

declare module "vitest" {
  interface TaskMeta {
    /** Of a test that measured a neighbour. */
    figures?: NeighbourFigures;
  }
}

/** Called once in a test. */
export function tellFigures({ task }: Pick<TestContext, "task">, figures: NeighbourFigures): void {
  task.meta.figures = figures;
}

export function delaysOf(tookMs: readonly number[]): Delays {
  const sorted = tookMs.toSorted((left, right) => left - right);
  const at = (share: number) =>
    Math.round(10 * (sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN)) / 10;
  return { p50: at(0.5), p90: at(0.9), max: at(1) };
}
