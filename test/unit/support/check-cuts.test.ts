/** How the cuts of the power-cut tests are shared out, and what is told of them meanwhile. */

import { expect, test } from "vitest";
import { checkCuts, createFaultList } from "../../support/power-cuts/check-cuts.ts";
import { changesSchema, createLedger } from "../../support/power-cuts/ledger.ts";
import type { Cut } from "../../support/power-cuts/replay.ts";

const cutAt = (position: number): Cut => ({ position, unflushed: "none", seed: 0 });
const sorted = (positions: readonly number[]) => positions.toSorted((left, right) => left - right);
const cutsUpTo = (count: number) => Array.from({ length: count }, (_none, index) => cutAt(index));

/** What each of so many checks has seen; `faultsOf` says what is wrong, by position. */
async function run(count: number, checks: number, faultsOf: (position: number) => string[]) {
  const lines: string[] = [];
  const tell = (line: string) => void lines.push(line);
  const list = createFaultList(tell);
  const seen = Array.from({ length: checks }, (): number[] => []);
  const checked = await checkCuts({
    cuts: cutsUpTo(count),
    checks: seen.map((positions, index) => async ({ position }) => {
      positions.push(position);
      // The first one is slower than the others.
      for (let turn = index === 0 ? 3 : 1; turn > 0; turn -= 1) await Promise.resolve();
      return faultsOf(position);
    }),
    list,
    tell,
  });
  return { checked, lines, seen, faults: [...list.faults] };
}

test.for([1, 2, 3])(
  "%i checks see each cut once, and each its own in their order",
  async (checks) => {
    const { checked, seen } = await run(100, checks, () => []);
    expect(checked).toBe(100);
    expect(seen.map(sorted)).toEqual(seen);
    expect(sorted(seen.flat())).toEqual(cutsUpTo(100).map(({ position }) => position));
    expect(seen.every((positions) => positions.length > 10)).toBe(true);
  },
);

test("a fault is told with the first cut that shows it before the next cut is checked", async () => {
  const told: number[] = [];
  const { lines, faults } = await run(5, 1, (position) => {
    told.push(position);
    return position % 2 === 1 ? ["lost"] : [];
  });
  const cut = JSON.stringify(cutAt(1));
  expect(told).toHaveLength(5);
  expect(lines).toEqual([`fault: lost, at ${cut}`]);
  expect(faults).toEqual([["lost", cut]]);
});

test("the progress is told each 500 cuts, with the number of faults", async () => {
  const { lines } = await run(1200, 2, () => []);
  expect(lines).toEqual(["500 of 1200 cuts, 0 faults", "1000 of 1200 cuts, 0 faults"]);
});

test("after 21 faults the rest is not looked at", async () => {
  const { checked, faults } = await run(100, 1, (position) => [`fault ${position}`]);
  expect(checked).toBe(21);
  expect(faults).toHaveLength(21);
});

async function failing(): Promise<string[]> {
  throw new Error("it ended");
}

test("a check that fails ends the others after their cut", async () => {
  const seen: number[] = [];
  const other = async ({ position }: Cut) => {
    seen.push(position);
    return [];
  };
  const list = createFaultList(() => undefined);
  const wanted = { cuts: cutsUpTo(50), checks: [other, failing], list, tell: () => undefined };
  await expect(checkCuts(wanted)).rejects.toThrow("it ended");
  expect(seen.length).toBeLessThan(5);
});

test("a ledger of the changes of another one allows the same values", async () => {
  let now = 0;
  const ledger = createLedger(() => now);
  for (const value of ["old", undefined, "new"]) {
    const note = () => [["thing", value]] as const;
    await ledger.change(async () => (now += 10), note);
  }
  const sent: unknown = JSON.parse(JSON.stringify(ledger.changes()));
  const copy = createLedger(() => 0, changesSchema.parse(sent));
  const allowed = (of: typeof ledger) =>
    [5, 10, 15, 20, 30].map((at) => [...of.allowed("thing", at)]);
  expect(allowed(copy)).toEqual(allowed(ledger));
  expect(copy.names).toEqual(["thing"]);
  expect(copy.answers(() => true)).toEqual([10, 20, 30]);
});
