/** Whether a run is worse than the committed one, by the ratios to the floors of each. */

import { ratioOf, type Row } from "./figure.ts";

/** A ratio that is worse by more than this share is a regression. */
const TOLERANCE = 0.15;

export interface Regression {
  readonly id: string;
  readonly text: string;
}

/**
 * Rows without a floor, or without a row in the baseline, are not compared.
 * @throws Error when two rows have one id: one would be compared with the other.
 */
export function findRegressions(
  rows: readonly Row[],
  baseline: readonly Row[],
): readonly Regression[] {
  requireOwnIds(rows);
  requireOwnIds(baseline);
  return rows.flatMap((row) => {
    const known = baseline.find(({ id }) => id === row.id);
    const [before, after] = [known && ratioOf(known), ratioOf(row)];
    if (before === undefined || after === undefined) return [];
    // Of a rate more is better.
    const growth = row.unit === "MB/s" ? before / after : after / before;
    if (growth <= 1 + TOLERANCE) return [];
    const percent = Math.round((growth - 1) * 100);
    const text = `${row.name}: ${after.toFixed(2)} x, was ${before.toFixed(2)} x: ${percent} % worse`;
    return [{ id: row.id, text }];
  });
}

function requireOwnIds(rows: readonly Row[]): void {
  const ids = rows.map(({ id }) => id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new Error(`two rows have the id ${twice}`);
}
