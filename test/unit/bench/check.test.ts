/** What counts as a regression of the bench: ratios, each in its own direction. */

import { expect, test } from "vitest";
import { findRegressions } from "../../../bench/check.ts";
import type { Row } from "../../../bench/figure.ts";
import { readBaseline } from "../../../bench/report.ts";

function row(unit: Row["unit"], ours: number, floor?: number): Row {
  const base = { id: "row", name: "row", unit, ours, samples: 1, peers: [], verdicts: [] };
  return floor === undefined ? base : { ...base, floor };
}

test.for([
  { name: "slower by 16 %", before: row("ms", 10, 5), after: row("ms", 11.6, 5), count: 1 },
  { name: "slower by 14 %", before: row("ms", 10, 5), after: row("ms", 11.4, 5), count: 0 },
  { name: "a slower machine", before: row("ms", 10, 5), after: row("ms", 30, 15), count: 0 },
  { name: "faster", before: row("ms", 10, 5), after: row("ms", 1, 5), count: 0 },
  { name: "a lower rate", before: row("MB/s", 100, 200), after: row("MB/s", 80, 200), count: 1 },
  { name: "a higher rate", before: row("MB/s", 100, 200), after: row("MB/s", 180, 200), count: 0 },
  { name: "no floor", before: row("ms", 10), after: row("ms", 100), count: 0 },
])("$name: $count", ({ before, after, count }) => {
  expect(findRegressions([after], [before])).toHaveLength(count);
});

test("a row that the baseline does not have is no regression", () => {
  expect(findRegressions([row("ms", 10, 5)], [])).toEqual([]);
});

test("two rows of one id are refused: one would be compared with the other", () => {
  const twice = [row("ms", 10, 5), row("ms", 10, 1)];
  expect(() => findRegressions(twice, [])).toThrow("two rows have the id row");
  expect(() => findRegressions([], twice)).toThrow("two rows have the id row");
});

test("each row of the committed baseline has an id of its own", async () => {
  const baseline = await readBaseline();
  expect(baseline?.rows.length).toBeGreaterThan(50);
  expect(findRegressions(baseline?.rows ?? [], baseline?.rows ?? [])).toEqual([]);
});
